"""Build for the ATmega128L with avr-gcc; program with avrdude."""

import subprocess
import sys
from pathlib import Path

from SCons.Script import COMMAND_LINE_TARGETS, AlwaysBuild, Builder, Default, DefaultEnvironment

env = DefaultEnvironment()

sys.path.insert(0, str(Path(env.PioPlatform().get_dir()).parents[1] / "scripts"))
import avrdude  # noqa: E402

env.Replace(
    AR="avr-gcc-ar",
    AS="avr-as",
    CC="avr-gcc",
    CXX="avr-g++",
    GDB="avr-gdb",
    OBJCOPY="avr-objcopy",
    RANLIB="avr-gcc-ranlib",
    SIZETOOL="avr-size",
    ARFLAGS=["rc"],
    PROGNAME="firmware",
    PROGSUFFIX=".elf",
    SIZECHECKCMD="$SIZETOOL -A -d $SOURCES",
    SIZEPRINTCMD="$SIZETOOL -C --mcu=$BOARD_MCU $SOURCES",
    SIZEPROGREGEXP=r"^(?:\.text|\.data|\.bootloader)\s+(\d+).*",
    SIZEDATAREGEXP=r"^(?:\.data|\.bss|\.noinit)\s+(\d+).*",
)
# Optimizing the whole program at link time makes the images five to ten per cent smaller. The sections are made then,
# so the linker needs the same flags. Enumerations of one byte and short calls where they reach save three more; one
# to two come from sharing the code that saves registers, and from not building one function of everything that is
# called once (it runs out of registers). Two more come from using the pointer X only as the processor can, and from not
# keeping in registers what is as quickly computed again; another two from calling small functions, too. Not guessing
# which branch is taken saves a little, and so does the order of functions: that of the sources, and what is linked
# (`in_order`), since a call within 4 kB is half as long.
machine = ["-mmcu=$BOARD_MCU"]
code = [
    *(*machine, "-Os", "-g", "-flto", "-ffunction-sections", "-fdata-sections", "-fshort-enums", "-mrelax"),
    *("-mcall-prologues", "--param=large-function-insns=1800"),
    *("-mstrict-X", "-fno-gcse", "-fno-move-loop-invariants", "-fno-inline-small-functions", "-fno-tree-pre"),
    *("-fno-toplevel-reorder", "-fno-guess-branch-probability"),
]
ORDER = ("startup.o", "/chips/", "/boards/", "/net/", "/core/")  # what is not among these comes last


def in_order(target, source, env, for_signature):
    """The objects of an image as they are linked. SCons calls it to expand $IN_ORDER."""

    def rank(path):
        return next((i for i, part in enumerate(ORDER) if part in path), len(ORDER))

    return " ".join(sorted((str(path).replace("\\", "/") for path in source), key=rank))


env.Replace(IN_ORDER=in_order, LINKCOM=env["LINKCOM"].replace("$SOURCES", "$IN_ORDER"))
env.Append(
    ASFLAGS=machine,
    ASPPFLAGS=["-x", "assembler-with-cpp"],
    CCFLAGS=code,
    CPPDEFINES=[("F_CPU", "$BOARD_F_CPU")],
    LINKFLAGS=[*code, "-Wl,--gc-sections", "-nostartfiles"],
    BUILDERS={
        "ElfToHex": Builder(
            action=env.VerboseAction("$OBJCOPY -O ihex -R .eeprom $SOURCES $TARGET", "Building $TARGET"),
            suffix=".hex",
        )
    },
)

if "nobuild" in COMMAND_LINE_TARGETS:
    elf = str(Path("$BUILD_DIR") / "${PROGNAME}.elf")
    hexfile = str(Path("$BUILD_DIR") / "${PROGNAME}.hex")
else:
    # The linker shortens jumps in code only. Our copy of the startup code has its interrupt vectors marked as data, so
    # they stay `jmp`s, which take no more room: an emulator may tell by the first one how long a vector is.
    find = [env.subst("$CC"), env.subst("-mmcu=$BOARD_MCU"), env.subst("-print-file-name=crt${BOARD_MCU}.o")]
    startup = subprocess.run(find, check=True, capture_output=True, text=True, env=env["ENV"]).stdout.strip()
    keep = "$OBJCOPY --set-section-flags .vectors=alloc,contents,load,readonly,data $SOURCE $TARGET"
    env.Prepend(
        PIOBUILDFILES=env.Command(
            str(Path("$BUILD_DIR") / "startup.o"), startup, env.VerboseAction(keep, "Copying $SOURCE")
        )
    )
    elf = env.BuildProgram()
    hexfile = env.ElfToHex(str(Path("$BUILD_DIR") / "${PROGNAME}"), elf)
    env.Depends(hexfile, "checkprogsize")
AlwaysBuild(env.Alias("nobuild", hexfile))
Default(env.Alias("buildprog", hexfile, hexfile))


def call(env, *operations):
    """Call avrdude; what it said."""
    config = env.PioPlatform().get_package_dir("tool-avrdude")
    command = avrdude.command(
        env.subst("$UPLOAD_PORT"),
        operations,
        programmer=env.subst("$UPLOAD_PROTOCOL"),
        config=Path(config) / "avrdude.conf" if config else None,
    )
    print(avrdude.shown(command))
    return avrdude.run(command)


def told(act):
    """An action of SCons; a failure comes with what to do about it."""

    def action(target, source, env):
        try:
            act(source, env)
        except avrdude.ProgrammingError as error:
            sys.stderr.write(f"Error: {error}\n")
            return 1
        return 0

    return action


def program(source, env):
    call(env, avrdude.write_flash(str(source[0])))


def set_fuses(source, env):
    avrdude.confirm_fuses()
    low = avrdude.write_low_fuse(call(env, *avrdude.READ_LOW_FUSE))
    call(env, *avrdude.FUSES, low)


env.AddPlatformTarget(
    "size", elf, env.VerboseAction("$SIZEPRINTCMD", "Size of $SOURCE"), "Size", "Flash and RAM used"
)
env.AddPlatformTarget(
    "upload", hexfile, env.VerboseAction(told(program), "Programming $SOURCE"), "Upload", "Program one mote"
)
env.AddPlatformTarget(
    "fuses",
    None,
    env.VerboseAction(told(set_fuses), "Fuses of an ATmega128L on a MICA mote"),
    "Fuses",
    "Set the fuses of one mote: once in its life",
)
