# Turns summaries of `hotcc-bench lab --json` into the columns of recorded.csv: one row for each download that ended. The RTT is
# the mean of its samples.
["acked_bytes", "segments", "retransmits", "timeouts", "rtt_us", "min_rtt_us", "goodput_kbps", "duration_ms"],
(.[].flows[] | select(.complete and .rtt_ms.count > 0) | [
	.bytes, .packets, .retransmits, .timeouts,
	(.rtt_ms.mean * 1000 | round), (.rtt_ms.min * 1000 | round),
	(.throughput_bps / 1000 | round), ((.end_s - .start_s) * 1000 | round)
]) | @csv
