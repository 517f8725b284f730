-- Hosts that keep their GPUs waiting, over all runs with `--tag host=...`; without the tag, over all runs. Only steps in which the GPU works for
-- more than a tenth of the time count: a longer pause is one without requests, and so are all of a capture of an idle server.
SELECT coalesce(host, '(no tag host)') AS host, count(DISTINCT run) AS runs, count(*) AS steps, round(sum(coalesce(host_late_ns, 0)) / 1e9, 3) AS waiting_s,
       round(100 * sum(coalesce(host_late_ns, 0)) / sum(duration_ns), 2) AS waiting_pct
FROM steps JOIN runs USING (run) WHERE status = 'ok' AND 10 * steps.busy_ns > duration_ns GROUP BY ALL ORDER BY waiting_pct DESC LIMIT 20;
