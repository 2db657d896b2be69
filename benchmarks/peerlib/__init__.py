"""What the benchmark scripts share: cases, peers, timing, statistics, records. Nothing heavy is imported here."""
