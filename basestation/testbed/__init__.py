"""The testbed's Python side: it sets up runs and judges them. firmware/testbed emulates the motes.

Before a run: `topologies` says who hears whom, `faults` turns a timeline into a script, `images` finds or builds the
firmware, and `scenario` puts it all into the text that `engine` gives to the C program.

After a run: `truth_log` reads its log, `air` decodes what was sent, `node_times` what time each mote showed, `host`
what the gateways said; `judge` makes a `testbed_report` of it, and `pcap` writes the frames for Wireshark.
"""
