"""Build with the machine's own compiler; the result is run by `pio test`."""

from SCons.Script import AlwaysBuild, Default, DefaultEnvironment

env = DefaultEnvironment()
env.Append(CCFLAGS=["-O1", "-g"])

program = env.BuildProgram()
AlwaysBuild(env.Alias("nobuild", "$PROGPATH"))
env.AddPlatformTarget(
    "exec", program, env.VerboseAction("$SOURCE $PROGRAM_ARGS", "Running $SOURCE"), "Run", "Run the program"
)
Default(env.Alias("buildprog", program, program))
