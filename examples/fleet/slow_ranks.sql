-- Ranks whose steps take longer than those of the other ranks in the same folder. Files whose names have no rank are left out.
WITH times AS (
  SELECT run, regexp_replace(path, '/[^/]*$', '') AS job, label, stage, median_ns, host_late_median_ns
  FROM stages JOIN runs USING (run) WHERE status = 'ok' AND median_ns > 0 AND regexp_matches(label, '(?i)(rank|tp|dp|ep|pp)[-_]?[0-9]')
), jobs AS (
  SELECT job, stage, median(median_ns) AS usual_ns, count(*) AS ranks FROM times GROUP BY ALL HAVING count(*) > 1
)
SELECT job, label, stage, ranks, round(median_ns / 1e6, 3) AS step_ms, round(usual_ns / 1e6, 3) AS usual_ms,
       round(100 * (median_ns / usual_ns - 1), 1) AS slower_pct, round(host_late_median_ns / 1e6, 3) AS host_late_ms
FROM times JOIN jobs USING (job, stage) WHERE median_ns > 1.02 * usual_ns ORDER BY slower_pct DESC LIMIT 20;
