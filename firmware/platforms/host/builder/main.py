"""Build with the machine's own compiler; the result is run by `pio test`."""

from SCons.Script import AlwaysBuild, Default, DefaultEnvironment

env = DefaultEnvironment()
# What the chip would do silently, a bad address or an overflow, ends a test here.
checks = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
env.Append(CCFLAGS=["-O1", "-g", *checks], LINKFLAGS=checks)

program = env.BuildProgram()
AlwaysBuild(env.Alias("nobuild", "$PROGPATH"))
env.AddPlatformTarget(
    "exec", program, env.VerboseAction("$SOURCE $PROGRAM_ARGS", "Running $SOURCE"), "Run", "Run the program"
)
Default(env.Alias("buildprog", program, program))
