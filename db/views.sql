-- views.sql -- the documented views of the tuning database: best, trials, failures, runs, rejections, history,
-- tunables. Their columns are stable within a major version; later minor versions add some.

CREATE VIEW history AS -- every trial of every run
SELECT t.id AS id, t.run AS run, d.name AS gpu, d.sm AS sm, p.text AS problem, p.family AS family,
       t.kernel AS kernel, t.config AS config, t.tunables AS tunables, t.origin AS origin, t.outcome AS outcome,
       t.ms AS ms, t.forecast AS forecast, p.flops / t.ms / 1e9 AS tflops, t.registers AS registers,
       t.stack AS stack, t.spills AS spills, t.shared AS shared, t.blocks_per_sm AS blocks_per_sm,
       t.limit_by AS limit_by, t.p20 AS p20, t.p80 AS p80, t.samples AS samples, t.clock_mhz AS clock_mhz,
       t.error_max AS error_max, t.error_allowed AS error_allowed, t.compile_seconds AS compile_seconds,
       t.mean AS mean,
       (SELECT '{' || group_concat('"' || name || '":' || ms, ',') || '}'
        FROM (SELECT name, ms FROM kind WHERE trial = t.id ORDER BY n)) AS kinds,
       t.twin_of AS twin_of, t.race AS race, t.rivals AS rivals, t.made_as AS made_as, t.detail AS detail,
       t.log AS log, t.eligible AS eligible, t.current AS current, t.latest AS latest, t.source AS source,
       k.compile_key AS compile_key, k.driver AS driver, k.made_by AS made_by, coalesce(r.nvrtc, '') AS nvrtc,
       t.date AS date, d.facts AS device
FROM trial t JOIN problem p ON p.id = t.problem JOIN device d ON d.id = t.device
     JOIN toolchain k ON k.id = t.toolchain LEFT JOIN run r ON r.id = t.run;

CREATE VIEW trials AS -- what stands of it
SELECT * FROM history WHERE latest = 1;

CREATE VIEW best AS
SELECT h.gpu, h.sm, h.problem, h.family, h.kernel, h.config, h.tunables, h.origin, h.ms, h.forecast, h.tflops,
       h.registers, h.spills, h.shared, h.blocks_per_sm, h.limit_by, h.p20, h.p80, h.samples, h.clock_mhz,
       h.error_max, h.error_allowed, h.mean, h.kinds, h.race, h.rivals, h.source, h.compile_key, h.driver,
       h.made_by, h.nvrtc, h.date, h.device
FROM winner w JOIN history h ON h.id = w.trial;

CREATE VIEW failures AS
SELECT id, run, gpu, sm, problem, family, kernel, config, tunables, outcome, detail, registers, stack, spills,
       shared, blocks_per_sm, origin, log, source, compile_key, driver, made_by, nvrtc, date, device
FROM trials WHERE outcome <> 'ok';

CREATE VIEW runs AS -- SQL cannot see processes: here a run is running until it has stored nothing for 20 minutes
SELECT r.id AS id, r.begun AS begun, r.ended AS ended,
       iif(r.status = 'running' AND r.seen < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-20 minutes'), 'stopped', r.status)
         AS status, r.command AS command,
       (SELECT count(*) FROM trial t WHERE t.run = r.id) AS trials,
       (SELECT count(*) FROM trial t WHERE t.run = r.id AND t.outcome <> 'ok') AS failures,
       (SELECT coalesce(sum(j.count), 0) FROM rejection j WHERE j.run = r.id) AS rejected,
       r.version AS version, r.driver AS driver, r.nvrtc AS nvrtc, r.templates AS templates, r.model AS model,
       r.host AS host, r.device AS device, r.seen AS seen -- when it last stored a trial, else when it began
FROM (SELECT *, coalesce((SELECT max(date) FROM trial WHERE trial.run = run.id), begun) AS seen FROM run) r;

CREATE VIEW rejections AS
SELECT j.run AS run, d.name AS gpu, p.text AS problem, j.kernel AS kernel, j.count AS count, j.reason AS reason,
       d.facts AS device
FROM rejection j JOIN problem p ON p.id = j.problem JOIN device d ON d.id = j.device;

CREATE VIEW tunables AS -- the trials that work, with a column for each tunable that several kernels have
SELECT id, gpu, problem, config, origin, ms, tflops, kernel, json_extract(tunables, '$.Br') AS rows_of_q,
       json_extract(tunables, '$.Bc') AS rows_of_k, json_extract(tunables, '$.T') AS threads,
       json_extract(tunables, '$.w') AS warps, json_extract(tunables, '$.s') AS stages,
       json_extract(tunables, '$.W') AS width, json_extract(tunables, '$.L') AS seldom_rescaled, tunables, device
FROM trials WHERE outcome = 'ok';
