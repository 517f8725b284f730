-- Ranks that delay the others in the same folder. Such a rank works longer per step than the others and waits less in collectives, where the
-- others wait for it, so their steps are as long as its own. Without collectives its steps are longer. Files whose names have no rank are
-- left out.
WITH ranks AS (
  SELECT run, regexp_replace(path, '/[^/]*$', '') AS job, label
  FROM runs WHERE status = 'ok' AND regexp_matches(label, '(?i)(rank|tp|dp|ep|pp)[-_]?[0-9]')
), step_times AS (
  SELECT run, count(*) AS steps, avg(duration_ns) AS step_ns, avg(host_late_ns) AS host_late_ns FROM steps WHERE duration_ns > 0 GROUP BY run
), collectives AS (
  SELECT run, sum(exclusive_ns) AS alone_ns FROM kernels WHERE category = 'communication' GROUP BY run
), times AS (
  SELECT job, label, step_ns, host_late_ns, coalesce(alone_ns, 0) / steps AS collective_ns, step_ns - coalesce(alone_ns, 0) / steps AS own_ns
  FROM ranks JOIN step_times USING (run) LEFT JOIN collectives USING (run)
), jobs AS (
  SELECT job, median(own_ns) AS usual_own_ns, median(collective_ns) AS usual_collective_ns, count(*) AS ranks FROM times GROUP BY job HAVING count(*) > 1
)
SELECT job, label, ranks, round(step_ns / 1e6, 3) AS step_ms, round(own_ns / 1e6, 3) AS own_ms, round(usual_own_ns / 1e6, 3) AS usual_own_ms,
       round(100 * (own_ns / usual_own_ns - 1), 1) AS slower_pct, round((usual_collective_ns - collective_ns) / 1e6, 3) AS others_wait_ms,
       round(host_late_ns / 1e6, 3) AS host_late_ms
FROM times JOIN jobs USING (job) WHERE own_ns > 1.02 * usual_own_ns AND collective_ns <= usual_collective_ns
ORDER BY slower_pct DESC LIMIT 20;
