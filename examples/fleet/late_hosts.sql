-- Hosts that keep their GPUs waiting, over all runs with `--tag host=...`; without the tag, over all runs.
SELECT coalesce(host, '(no tag host)') AS host, count(DISTINCT run) AS runs, round(sum(host_late_ms + drained_ms) / 1e3, 3) AS waiting_s,
       round(100 * sum(host_late_ms + drained_ms) / sum(window_ms), 2) AS waiting_pct
FROM idle JOIN runs USING (run) WHERE status = 'ok' GROUP BY ALL ORDER BY waiting_pct DESC LIMIT 20;
