"""The testbed's Python side: it sets up runs and judges them. firmware/testbed emulates the motes.

Before a run: `topologies` computes the links, `faults` turns a timeline into a script, `images` finds or builds the
firmware, and `scenario` writes the text that `engine` gives to the C program.

After a run: `truth_log` reads its log, `signals` decodes the frames, `node_times` the clocks of the motes, `host` the
gateways' lines; `judge` makes a `testbed_report` of them, and `capture` writes the frames for Wireshark.
"""
