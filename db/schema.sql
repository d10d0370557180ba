-- schema.sql -- the tables of the tuning database, version 1.4 (user_version 1004). A person may open this file
-- with any SQLite viewer; start with the views, which views.sql has. Times are milliseconds, sizes are bytes,
-- dates are UTC in ISO 8601. Hashes are SHA-256 in hex.
--
-- Who wins a problem on a device, of the trials that work, are current and may be picked unasked: measured ones come
-- before predicted ones. If the fastest on normal data (`ms`) was timed on every kind of data in a race, so that it has
-- a `mean`, the least mean wins, and no trial without one; else the fastest wins, as it did before version 1.2. Of
-- trials within noise of the winner the tuner may prefer another.
--
-- Rows are written by one transaction per trial, and a run never changes a row of an earlier one.
-- `PRAGMA user_version` is set by migrate.c, not here.

PRAGMA application_id = 0x6661746e; -- "fatn"

CREATE TABLE problem ( -- what was asked, one row per shape ("anchor")
  id     INTEGER PRIMARY KEY,
  text   TEXT NOT NULL UNIQUE, -- canonical: fwd-f16-b2-h16k4-q4096-k4096-d128-causal
  family TEXT NOT NULL,        -- the half that decides the code: fwd-f16-d128-causal
  op     TEXT NOT NULL,        -- fwd, bwd
  dtype  TEXT NOT NULL,        -- f16, bf16, f32, tf32, f32x3
  b      INTEGER NOT NULL,     -- batch
  h      INTEGER NOT NULL,     -- query heads
  hk     INTEGER NOT NULL,     -- key and value heads
  q      INTEGER NOT NULL,     -- rows of Q
  k      INTEGER NOT NULL,     -- rows of K and V
  d      INTEGER NOT NULL,     -- head dimension of Q and K
  dv     INTEGER NOT NULL,     -- head dimension of V and O
  flops  REAL NOT NULL         -- floating-point operations of one call, by the usual convention
) STRICT;
CREATE INDEX problem_family ON problem(family);

CREATE TABLE mod ( -- what the expressions say that problems name
  hash TEXT PRIMARY KEY NOT NULL, -- as the problem's text has it: mod0123456789abcdef, mask0123456789abcdef
  text TEXT NOT NULL              -- canonical: s + table0[h] * (j - i)
) STRICT;

CREATE TABLE device ( -- a GPU, known by what its driver reports, never by its name
  id           INTEGER PRIMARY KEY,
  facts        TEXT NOT NULL UNIQUE, -- what a pick must agree with: sm75-40SM-65536S-4194304L2-256b-1590+5001MHz
  name         TEXT NOT NULL,        -- a label: T4
  sm           INTEGER NOT NULL,     -- compute capability: 75 is 7.5
  sms          INTEGER NOT NULL,     -- streaming multiprocessors
  shared_block INTEGER NOT NULL,     -- most shared memory of one block
  shared_sm    INTEGER NOT NULL,     -- shared memory of one SM
  l2           INTEGER NOT NULL,     -- L2 cache
  bus          INTEGER NOT NULL,     -- memory bus, bits
  clock        INTEGER NOT NULL,     -- maximum SM clock, MHz
  memory_clock INTEGER NOT NULL,     -- maximum memory clock, MHz; 0 unknown
  dram         REAL NOT NULL,        -- peak memory bandwidth, GB/s
  memory       REAL NOT NULL         -- device memory, GiB
) STRICT;

CREATE TABLE toolchain ( -- what turned source into times, beside the source itself
  id          INTEGER PRIMARY KEY,
  compile_key TEXT NOT NULL, -- NVRTC version, options and the environment variables it reads
  driver      TEXT NOT NULL, -- '' where nothing was launched
  made_by     TEXT NOT NULL, -- '': measured by a tune; else what predicted or compiled: model 3, package 0.1.0,
                             -- libfatune 0.1.0
  UNIQUE (compile_key, driver, made_by)
) STRICT;

CREATE TABLE run ( -- one command that made trials
  id        INTEGER PRIMARY KEY,
  begun     TEXT NOT NULL,
  ended     TEXT,          -- NULL: running, or stopped without a word
  status    TEXT NOT NULL, -- running, done, interrupted, budget, failed, imported; stopped: killed, as the next tune
                           -- of that GPU found (view `runs` says so after a while, `fatune show runs` at once)
  device    TEXT NOT NULL, -- facts of the GPU that was tuned; '' for an import
  command   TEXT NOT NULL,
  version   TEXT NOT NULL, -- of fatune
  driver    TEXT NOT NULL,
  nvrtc     TEXT NOT NULL,
  templates TEXT NOT NULL, -- hash over all templates
  model     TEXT NOT NULL, -- that made its forecasts: model 3
  host      TEXT NOT NULL
) STRICT;

CREATE TABLE rejection ( -- configs that a run did not try because a rule says that they cannot work
  run     INTEGER NOT NULL REFERENCES run(id),
  problem INTEGER NOT NULL REFERENCES problem(id),
  device  INTEGER NOT NULL REFERENCES device(id),
  kernel  TEXT NOT NULL,
  reason  TEXT NOT NULL,
  count   INTEGER NOT NULL,
  PRIMARY KEY (run, problem, device, kernel, reason)
) STRICT, WITHOUT ROWID;

-- Content, kept once per hash. It may be absent for a trial: only what is worth launching again is kept.
CREATE TABLE source (
  hash      TEXT PRIMARY KEY NOT NULL, -- of the code without header, comments and #line marks: trial.source
  text      TEXT NOT NULL,             -- the whole text, as NVRTC takes it
  text_hash TEXT NOT NULL              -- of the whole text: damage is found by it
) STRICT;
CREATE TABLE recipe ( -- how a binary is launched
  hash TEXT PRIMARY KEY NOT NULL,
  text TEXT NOT NULL
) STRICT;
CREATE TABLE binary ( -- code: its hash is checked before every load
  hash   TEXT PRIMARY KEY NOT NULL,
  target TEXT NOT NULL, -- sm_75
  cubin  BLOB NOT NULL
) STRICT;

CREATE TABLE trial ( -- one config of one kernel through all stages, and how that ended
  id              INTEGER PRIMARY KEY,
  run             INTEGER REFERENCES run(id),
  problem         INTEGER NOT NULL REFERENCES problem(id),
  device          INTEGER NOT NULL REFERENCES device(id),
  toolchain       INTEGER NOT NULL REFERENCES toolchain(id),
  kernel          TEXT NOT NULL,    -- fwd
  config          TEXT NOT NULL,    -- fwd:Br128-Bc64-t256
  tunables        TEXT NOT NULL DEFAULT '{}', -- the same as JSON: {"Br":128,"Bc":64,"t":256}
  source          TEXT NOT NULL,    -- hash of the generated code; its text may be in table source
  templates       TEXT NOT NULL,    -- hash over all templates when it was made
  origin          TEXT NOT NULL CHECK (origin IN ('measured', 'predicted')),
  outcome         TEXT NOT NULL,    -- ok, wrong, spills, compile-failed, launch-failed, fault, timeout, oom, unfit, slow
  eligible        INTEGER NOT NULL, -- 1: this kernel may be picked unasked
  current         INTEGER NOT NULL, -- 0: the same config was tried again later, with whatever source and tools
  latest          INTEGER NOT NULL DEFAULT 1, -- 0: history, a later run tried the same source with the same tools
  twin_of         TEXT NOT NULL DEFAULT '',   -- the config that it stands in for where tensors are not aligned
  race            TEXT NOT NULL DEFAULT '',   -- when the last round began that it was in; '': none
  rivals          INTEGER NOT NULL DEFAULT 0, -- so many others it was timed in turns with there; 0: it broke off
  made_as         TEXT NOT NULL DEFAULT '',   -- compiled on demand: default, default without maps, rebuilt, twin
  ms              REAL,             -- measured: median of the samples; predicted: by the model; NULL: no time
  mean            REAL,             -- over the kinds of data (table kind), geometric: normal data weighs half, the
                                    -- others share the other half; NULL: in no race, or in one before version 1.2
  forecast        REAL,             -- milliseconds by the model, also where it was measured
  p20             REAL,
  p80             REAL,
  clock_mhz       REAL,             -- median effective SM clock
  error_max       REAL,             -- verification: largest error seen
  error_allowed   REAL,             -- and the largest allowed
  limit_by        TEXT NOT NULL,    -- what binds, by the model: fma, shared, dram, ...
  registers       INTEGER NOT NULL, -- of a thread, worst entry
  stack           INTEGER NOT NULL, -- local memory of a thread
  spills          INTEGER NOT NULL, -- spill stores and loads
  shared          INTEGER NOT NULL, -- shared memory of a block, static and dynamic
  blocks_per_sm   INTEGER NOT NULL,
  compile_seconds REAL,
  samples         INTEGER NOT NULL, -- how many rows of table sample belong to it
  detail          TEXT NOT NULL,    -- why it failed; how its race broke off
  log             TEXT NOT NULL,    -- compiler log of a failed one
  date            TEXT NOT NULL,
  recipe          TEXT REFERENCES recipe(hash),
  binary          TEXT REFERENCES binary(hash)
) STRICT;
CREATE UNIQUE INDEX trial_key ON trial(problem, device, config, source, toolchain, origin, coalesce(run, 0));
-- 'measured' sorts before 'predicted': the first row of a range is the best of its kind.
CREATE INDEX trial_winner ON trial(problem, device, origin, ms, mean)
  WHERE eligible = 1 AND current = 1 AND outcome = 'ok' AND ms > 0;
CREATE INDEX trial_kernel ON trial(problem, device, kernel, origin, ms)
  WHERE current = 1 AND outcome = 'ok' AND ms > 0;
CREATE INDEX trial_run ON trial(run);

CREATE TABLE sample ( -- every timing, in order of measurement
  trial INTEGER NOT NULL REFERENCES trial(id) ON DELETE CASCADE,
  n     INTEGER NOT NULL,
  ms    REAL NOT NULL,
  clock REAL, -- effective SM clock, MHz
  PRIMARY KEY (trial, n)
) STRICT, WITHOUT ROWID;

CREATE TABLE kind ( -- how long a call takes on each kind of data that its trial was timed on in a race
  trial INTEGER NOT NULL REFERENCES trial(id) ON DELETE CASCADE,
  n     INTEGER NOT NULL, -- their order
  name  TEXT NOT NULL,    -- normal; wide: scores of standard deviation 6; rise100, rise16, rise4, fall100, fall16,
                          -- fall4: scores rise or fall by 1/100, 1/16, 1/4 nat a key; sink: 10 more on the first 4
                          -- keys; peaks: 12 more on one key of 64
  ms    REAL NOT NULL,    -- median
  PRIMARY KEY (trial, n)
) STRICT, WITHOUT ROWID;

CREATE TABLE winner ( -- the one to pick for a problem on a device; chosen in the trial's own transaction
  problem INTEGER NOT NULL REFERENCES problem(id),
  device  INTEGER NOT NULL REFERENCES device(id),
  trial   INTEGER NOT NULL REFERENCES trial(id),
  date    TEXT NOT NULL, -- when it became the winner
  PRIMARY KEY (problem, device)
) STRICT, WITHOUT ROWID;
