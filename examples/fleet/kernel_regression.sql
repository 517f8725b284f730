-- Kernels that became slower: their mean time in the newest commit against the commit before it, on the same GPU.
-- Needs runs with `--tag commit=...`. The order of commits is that of their first traces.
WITH commits AS (
  SELECT "commit", gpu, min(modified_unix_ms) AS first_ms
  FROM runs WHERE status = 'ok' AND "commit" IS NOT NULL GROUP BY ALL
), ranked AS (
  SELECT *, row_number() OVER (PARTITION BY gpu ORDER BY first_ms DESC) AS age FROM commits
), times AS (
  SELECT age, gpu, name, any_value("commit") AS "commit", any_value(short_name) AS kernel, any_value(category) AS category,
         sum(duration_ns) / sum(count) AS launch_ns, sum(duration_ns) AS total_ns, stddev(mean_ns) AS spread_ns, count(*) AS runs
  FROM kernels JOIN runs USING (run) JOIN ranked USING (gpu, "commit") WHERE age <= 2 GROUP BY age, gpu, name
)
SELECT new.gpu, new.kernel, new.category, old."commit" AS before, new."commit" AS after, round(old.launch_ns / 1e3, 2) AS before_us,
       round(new.launch_ns / 1e3, 2) AS after_us, round(100 * (new.launch_ns / old.launch_ns - 1), 1) AS slower_pct,
       round((new.launch_ns - old.launch_ns) * new.total_ns / new.launch_ns / 1e6, 2) AS cost_ms, new.runs
FROM times new JOIN times old ON new.age = 1 AND old.age = 2 AND new.gpu IS NOT DISTINCT FROM old.gpu AND new.name = old.name
-- More than 3 % and more than twice the spread between runs.
WHERE new.launch_ns > 1.03 * old.launch_ns AND new.launch_ns - old.launch_ns > 2 * coalesce(greatest(new.spread_ns, old.spread_ns), 0)
ORDER BY cost_ms DESC LIMIT 20;
