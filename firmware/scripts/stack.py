"""Computes the most stack that a linked image can use, from its machine code. Standard library and avr-objdump only.

    python3 firmware/scripts/stack.py .pio/build/micaz/firmware.elf

It follows every path from the reset vector on and counts the bytes on the stack: pushes and pops, frames made by moving
the stack pointer, calls (a return address has 2 bytes: the ATmega128 has 64 K words of flash). It follows a tail call
as a jump, so neither the compiler's inlining nor its shared endings matter. It knows the code that functions share for
saving registers and making a frame (-mcall-prologues). It refuses what it cannot follow and names the place: recursion,
a stack pointer loaded from elsewhere, an indirect call with an unknown target, a handler that lets others interrupt it.
The worst case of an image is the most that its loop uses and the most that one handler uses.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

RETURN_BYTES = 2
VECTOR_BYTES = 4
VECTORS = 35
UNUSED = "__bad_interrupt"  # where avr-libc sends interrupts without a handler
DEEPEST = 4096  # the ATmega128's RAM: a path that goes deeper is an endless loop

# What -mcall-prologues shares. A function loads the size of its frame into X and the address of its body, which
# follows, into Z, and jumps to the first register to save; at its end it jumps to the first to restore, and returns
# from there.
SAVES, RESTORES = "__prologue_saves__", "__epilogue_restores__"
X, Z = ("r26", "r27"), ("r30", "r31")
LOADS = 4  # instructions, each of two bytes, just before the jump

# The possible targets of an indirect call, by its context. A function that is not in the image is not a target.
#   loop       bundle.c calls what messaging.c or gateway.c does with a message
#   interrupt  adc.c calls the function that asked for the conversion: the CC1000 driver's
TARGETS = {"loop": ("on_data", "hand_up_and_answer"), "interrupt": ("cc1000_on_rssi",)}

_HEAD = re.compile(r"^([0-9a-f]+) <(.+)>:$")
_LINE = re.compile(r"^\s*([0-9a-f]+):\t((?:[0-9a-f]{2} )+)\s*\t?(\S+)?(?:\t([^;]*?))?\s*(?:;\s*(.*))?$")
_SKIPS = {"sbrc", "sbrs", "sbic", "sbis", "cpse"}
_CALLS = {"call", "rcall"}
_JUMPS = {"jmp", "rjmp"}
# Instructions that do not change their first operand.
_READERS = {"cp", "cpc", "cpi", "cpse", "tst", "push", "out", "sts", "st", "std", "sbrc", "sbrs", "bst"}
_MOVES_Y = re.compile(r"\bY\+(?!\d)|-Y\b")
_LOCAL_SUFFIX = re.compile(r"\.(?:lto_priv|constprop|part|isra)(?:\.\d+)?")


class StackError(Exception):
    """The stack of some code cannot be computed, and where."""


@dataclass(frozen=True)
class Instruction:
    address: int
    size: int
    name: str
    operands: tuple[str, ...]
    target: int | None  # of a call, jump or branch

    @property
    def next(self) -> int:
        return self.address + self.size


@dataclass(frozen=True)
class DisassembledProgram:
    code: dict[int, Instruction]
    symbols: dict[int, str]  # by address, where a label stands

    def where(self, address: int) -> str:
        """An address in words: the label before it and the distance from it."""
        labels = [at for at in self.symbols if at <= address]
        if not labels:
            return f"{address:#x}"
        at = max(labels)
        return plain_name(self.symbols[at]) + (f"+{address - at:#x}" if address > at else "")

    def leads_into(self, instruction: Instruction, name: str) -> bool:
        """Whether an instruction jumps into the code under this label."""
        is_jump = instruction.name in _JUMPS and instruction.target is not None
        return is_jump and self.where(instruction.target or 0).partition("+")[0] == name

    def called(self, name: str) -> list[int]:
        """The addresses of the functions of this name; the compiler adds endings to private ones."""
        return [at for at, symbol in self.symbols.items() if plain_name(symbol) == name]


def plain_name(symbol: str) -> str:
    return _LOCAL_SUFFIX.sub("", symbol)


def parse(listing: str) -> DisassembledProgram:
    """The program in the output of `avr-objdump -d`."""
    code: dict[int, Instruction] = {}
    symbols: dict[int, str] = {}
    for line in listing.splitlines():
        if head := _HEAD.match(line):
            symbols[int(head[1], 16)] = head[2]
        elif (found := _LINE.match(line)) and found[3]:
            address, size = int(found[1], 16), len(found[2].split())
            operands = tuple(word.strip() for word in (found[4] or "").split(",") if word.strip())
            target = _target(found[3], operands, address + size)
            code[address] = Instruction(address, size, found[3], operands, target)
    if not code:
        raise StackError("no code in the listing")
    return DisassembledProgram(code, symbols)


def _target(name: str, operands: tuple[str, ...], following: int) -> int | None:
    if name in ("call", "jmp"):
        return int(operands[0], 0)
    if name in ("rcall", "rjmp") or (name.startswith("br") and name != "break"):
        return following + int(operands[-1].removeprefix("."))
    return None


class State(NamedTuple):
    """A point of a path: its address, the bytes on the stack since the entry, and the bytes there would be if the stack
    pointer were Y (None if Y does not come from the stack pointer)."""

    address: int
    depth: int
    y: int | None


@dataclass(frozen=True)
class Use:
    """The most bytes that a function uses, without its caller's return address, and the path of calls to there."""

    most: int
    path: tuple[str, ...]


@dataclass
class Analysis:
    """One context: the loop, or the handlers."""

    program: DisassembledProgram
    context: str
    known: dict[int, Use] = field(default_factory=dict)
    under_way: list[int] = field(default_factory=list)

    def use(self, entry: int) -> Use:
        """The stack use of the function that begins at `entry`, and all that it calls."""
        if entry in self.known:
            return self.known[entry]
        name = self.program.where(entry)
        if entry in self.under_way:
            raise StackError(f"{name} calls itself: recursion has no bound")
        self.under_way.append(entry)
        best = Use(0, (name,))
        for state in self._states(entry):
            here = Use(state.depth, (name,))
            for callee in self._callees(state):
                inner = self.use(callee)
                here = max(
                    here,
                    Use(state.depth + RETURN_BYTES + inner.most, (name, *inner.path)),
                    key=lambda use: use.most,
                )
            best = max(best, here, key=lambda use: use.most)
        self.under_way.pop()
        self.known[entry] = best
        return best

    def _callees(self, state: State) -> Iterable[int]:
        instruction = self.program.code[state.address]
        if instruction.name in _CALLS and instruction.target != instruction.next:
            assert instruction.target is not None
            return [instruction.target]
        if instruction.name in ("icall", "eicall"):
            return self._indirect(state.address)
        return []

    def _indirect(self, address: int) -> list[int]:
        found = [at for name in TARGETS[self.context] for at in self.program.called(name)]
        if not found and self.context == "loop":
            raise StackError(f"{self.program.where(address)}: an indirect call with an unknown target")
        return found

    def _states(self, entry: int) -> Iterator[State]:
        """All points of all paths from the entry on, without those inside calls."""
        waiting, seen = [State(entry, 0, None)], set()
        while waiting:
            state = waiting.pop()
            if state in seen:
                continue
            seen.add(state)
            if state.address not in self.program.code:
                raise StackError(f"{self.program.where(entry)}: a path leads out of the code")
            if state.depth > DEEPEST or state.depth < 0:
                raise StackError(
                    f"{self.program.where(state.address)}: {state.depth} bytes on the stack: it has no bound"
                )
            yield state
            waiting += self._following(state)

    def _following(self, state: State) -> list[State]:
        instruction = self.program.code[state.address]
        if self.program.leads_into(instruction, SAVES):
            return [self._body(instruction, state)]
        depth, y = self._effect(instruction, state)
        return [State(address, depth, y) for address in self._successors(instruction)]

    def _body(self, jump: Instruction, state: State) -> State:
        """The beginning of a function's body, after the jump to the code that saves registers and makes its frame."""
        code = self.program.code
        before = [code.get(jump.address - 2 * n) for n in range(1, LOADS + 1)]
        loaded = {i.operands[0]: int(i.operands[1], 0) for i in before if i and i.name == "ldi"}
        if set(loaded) != {*X, *Z} or 2 * (loaded[Z[0]] | loaded[Z[1]] << 8) != jump.next:
            raise StackError(f"{self.program.where(jump.address)}: a frame of unknown size")
        assert jump.target is not None
        address = jump.target
        while code[address].name == "push":
            address = code[address].next
        depth = state.depth + (address - jump.target) // 2 + (loaded[X[0]] | loaded[X[1]] << 8)
        return State(jump.next, depth, depth)

    def _effect(self, instruction: Instruction, state: State) -> tuple[int, int | None]:
        """The depth and Y after an instruction."""
        name, operands, depth, y = instruction.name, instruction.operands, state.depth, state.y
        if name == "push":
            return depth + 1, y
        if name == "pop":
            return depth - 1, None if operands[0] in ("r28", "r29") else y
        if name in _CALLS and instruction.target == instruction.next:
            return depth + RETURN_BYTES, y  # the compiler's short code to make room for two bytes
        if name == "sei" and self.context == "interrupt":
            raise StackError(
                f"{self.program.where(state.address)}: a handler lets others interrupt it: there is no bound"
            )
        if name == "out" and operands[0] in ("0x3d", "0x3e"):
            return self._moved(instruction, state), y
        return depth, self._y_after(instruction, state)

    def _moved(self, instruction: Instruction, state: State) -> int:
        """The depth after a write to SPL or SPH; they come in either order, and SPL counts."""
        register = {"0x3d": "r28", "0x3e": "r29"}[instruction.operands[0]]
        if instruction.operands[1] != register:
            raise StackError(
                f"{self.program.where(state.address)}: the stack pointer comes from {instruction.operands[1]}"
            )
        if state.y is not None:
            return state.y if register == "r28" else state.depth
        if state.depth == 0 and self.context == "loop" and len(self.under_way) == 1:
            return 0  # the start-up code's: the top of RAM
        raise StackError(f"{self.program.where(state.address)}: the stack pointer is set from somewhere else")

    def _y_after(self, instruction: Instruction, state: State) -> int | None:
        """The value of Y after an instruction. Frames go through Y: SP into Y, Y less the size, Y into SP; and back."""
        name, operands, y = instruction.name, instruction.operands, state.y
        first = operands[0] if operands else ""
        if name == "in" and (first, operands[1]) in (("r28", "0x3d"), ("r29", "0x3e")):
            return state.depth
        if y is not None and first in ("r28", "r29"):
            if name in ("sbiw", "adiw"):
                amount = int(operands[1], 0)
                return _wrapped(y + amount if name == "sbiw" else y - amount)
            if (name, first) == ("subi", "r28"):
                return _wrapped(y + int(operands[1], 0))
            if (name, first) == ("sbci", "r29"):
                return _wrapped(y + (int(operands[1], 0) << 8))
            if (name, first, operands[-1]) == ("sbc", "r29", "r1"):
                return y  # r1 is always 0
        if _MOVES_Y.search(",".join(operands)) or (first in ("r28", "r29") and name not in _READERS):
            return None
        return y

    def _successors(self, instruction: Instruction) -> list[int]:
        name, following = instruction.name, instruction.next
        if name in ("ret", "reti"):
            return []
        if name in ("ijmp", "eijmp"):
            raise StackError(f"{self.program.where(instruction.address)}: a jump to a computed address")
        if name in _JUMPS:
            assert instruction.target is not None
            is_reset = instruction.target == 0  # the stack begins again
            is_end = is_reset or self.program.leads_into(instruction, RESTORES)
            return [] if is_end else [instruction.target]
        if name in _SKIPS:
            return [following, self.program.code[following].next]
        if name.startswith("br") and instruction.target is not None:
            return [following, instruction.target]
        return [following]


def _wrapped(depth: int) -> int:
    """The depth in 16 bits: a frame is removed by subtracting a large number."""
    depth &= 0xFFFF
    return depth - 0x10000 if depth >= 0x8000 else depth


@dataclass(frozen=True)
class Stack:
    """The worst case of an image, in bytes."""

    loop: Use
    handlers: dict[int, Use]  # by the interrupt's number, the return address included

    @property
    def deepest(self) -> int:
        """The number of the handler that uses most."""
        return max(self.handlers, key=lambda number: self.handlers[number].most)

    @property
    def handler_bytes(self) -> int:
        return self.handlers[self.deepest].most if self.handlers else 0

    @property
    def total(self) -> int:
        """The worst case: the loop and one handler, since handlers do not interrupt one another."""
        return self.loop.most + self.handler_bytes


def analyse(program: DisassembledProgram) -> Stack:
    reset, *others = [program.code[number * VECTOR_BYTES].target for number in range(VECTORS)]
    assert reset is not None
    loop = Analysis(program, "loop").use(reset)
    analysis = Analysis(program, "interrupt")
    handlers = {}
    for number, target in enumerate(others, 1):
        if target is not None and program.symbols.get(target) != UNUSED:
            use = analysis.use(target)
            handlers[number] = Use(use.most + RETURN_BYTES, use.path)
    return Stack(loop, handlers)


def of_image(elf: Path) -> Stack:
    done = subprocess.run(["avr-objdump", "-d", str(elf)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise StackError(done.stderr.strip())
    return analyse(parse(done.stdout))


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: stack.py firmware.elf", file=sys.stderr)
        return 2
    try:
        stack = of_image(Path(arguments[0]))
    except (StackError, OSError) as error:
        print(f"Error: {arguments[0]}: {error}", file=sys.stderr)
        return 1
    print(f"loop {stack.loop.most}: {' > '.join(stack.loop.path)}")
    for number, use in sorted(stack.handlers.items()):
        print(f"interrupt {number} {use.most}: {' > '.join(use.path)}")
    print(f"worst case {stack.total}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
