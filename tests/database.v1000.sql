-- database.v1000.sql -- a tuning database of version 1.0 as the program at commit 7af19f1 made it, cut down: a tune on a
-- fake T4, one whose race broke off, rows of a package, a tune for an L4 that nobody ended. By hand: the rows of
-- problem q32 have a finalist of before races had names, and four rows as libfatune stored them (ids from 1000).
-- Binaries, sources, most samples and most losers were taken out.
PRAGMA application_id = 0x6661746e;
PRAGMA user_version = 1000;
BEGIN TRANSACTION;
CREATE TABLE binary ( -- code: its hash is checked before every load
  hash   TEXT PRIMARY KEY NOT NULL,
  target TEXT NOT NULL, -- sm_75
  cubin  BLOB NOT NULL
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
INSERT INTO "device" VALUES(1,'sm75-40SM-65536S-4194304L2-256b-1590+5001MHz','T4',75,40,65536,65536,4194304,256,1590,5001,320.0,16.0);
INSERT INTO "device" VALUES(2,'sm89-58SM-101376S-50331648L2-192b-2040+6251MHz','L4',89,58,101376,102400,50331648,192,2040,6251,300.0,24.0);
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
INSERT INTO "problem" VALUES(1,'fwd-f32-b1-h2-q64-k64-d16','fwd-f32-d16','fwd','f32',1,2,2,64,64,16,16,524288.0);
INSERT INTO "problem" VALUES(2,'fwd-f32-b1-h2-q128-k128-d16','fwd-f32-d16','fwd','f32',1,2,2,128,128,16,16,2097152.0);
INSERT INTO "problem" VALUES(3,'fwd-f32-b1-h2-q32-k32-d16','fwd-f32-d16','fwd','f32',1,2,2,32,32,16,16,131072.0);
INSERT INTO "problem" VALUES(4,'fwd-f32-b4-h32-q4096-k4096-d64','fwd-f32-d64','fwd','f32',4,32,32,4096,4096,64,64,549755813888.0);
INSERT INTO "problem" VALUES(5,'fwd-f32-b4-h32-q4096-k4096-d64-causal','fwd-f32-d64-causal','fwd','f32',4,32,32,4096,4096,64,64,274945015808.0);
CREATE TABLE recipe ( -- how a binary is launched
  hash TEXT PRIMARY KEY NOT NULL,
  text TEXT NOT NULL
) STRICT;
INSERT INTO "recipe" VALUES('0f79efaa8bc0e46f5302915cf2d96e43408f59b990bc20f63aa65e6112705856','launch fwd_f71f0fa2bd4e0adf grid ceildiv(q,64)*b*h block 128 shared 16896 args call
');
INSERT INTO "recipe" VALUES('727c996429bff33b744166c1aa91864a30e5dadbe8821c26f63eb069e5b9c9e7','launch fwd_b6346f85a2a9a6c2 grid ceildiv(q,16)*b*h block 128 shared 14464 args call
');
INSERT INTO "recipe" VALUES('e292952f87a957484b4311e8933488d3f3260776b568c45c37b7e393c73ce121','launch fwd_0b30813797bdbef3 grid ceildiv(q,16)*b*h block 64 shared 14464 args call
');
INSERT INTO "recipe" VALUES('ef153af0897efe4f29a2753a05bac2f88a2a0a77dc5b32b23ff3df7544b13781','launch fwd_8e1c791df24fc652 grid ceildiv(q,16)*b*h block 64 shared 14144 args call
');
INSERT INTO "recipe" VALUES('c96a65e0087fddef70d19bd5de1e4588d9ac0ddb7ed175bd758b602a13cb3919','launch fwd_90feca1c673f2b85 grid ceildiv(q,64)*b*h block 128 shared 15744 args call
');
INSERT INTO "recipe" VALUES('bee113efcec0a1bd828bdb51a534ce20a490fef086405fbd42e5ab1d45ee1766','launch fwd_4c5ee193fd7e2074 grid ceildiv(q,32)*b*h block 128 shared 20864 args call
');
INSERT INTO "recipe" VALUES('b39e62d69b41753e2dcf1a142b1c0036d53b40b483c1e2b0ee30631a9eea9f1e','launch fwd_a5e1fc317e2b2835 grid ceildiv(q,16)*b*h block 128 shared 8064 args call
');
INSERT INTO "recipe" VALUES('5217b3de45d96dae97ab35d2176f143877cb0aa10c23e662d672972886c430ab','launch fwd_15697fc90e62c13c grid ceildiv(q,16)*b*h block 64 shared 8192 args call
');
INSERT INTO "recipe" VALUES('75fdbaacdff25e0bca2fc676392bfca80524b384ef5ab0a76a8d00b821edd016','launch fwd_ba3fd59f2ec42ef4 grid ceildiv(q,16)*b*h block 128 shared 14144 args call
');
INSERT INTO "recipe" VALUES('b5efd25606e3d176309387e9c86d969bfbd6a52ac2f9d40f6954f3815429c420','launch fwd_43c5fea47294af2d grid ceildiv(q,16)*b*h block 64 shared 27264 args call
');
INSERT INTO "recipe" VALUES('21903166b7efe55212109da847875d64753a743fc11d4051121695b716d747d5','launch fwd_0464fd02b3664b53 grid ceildiv(q,64)*b*h block 128 shared 44544 args call
');
INSERT INTO "recipe" VALUES('761ff79f0e60f39d4d5d4c9b0f3d6fde87997650fa0a52f0815b2911317c4f1f','launch fwd_745e37ecf66fbf7a grid ceildiv(q,64)*b*h block 128 shared 44544 args call
');
INSERT INTO "recipe" VALUES('1fa2db9a08a98bc66987bad67013d88caf7006424a7cca16108bf448a8b49829','launch fwd_b9905401caa575b3 grid ceildiv(q,64)*b*h block 128 shared 43392 args call
');
INSERT INTO "recipe" VALUES('4efc0ffaf831dc88b9162004c4f93f3122431d46bc5a59285f62062dd7ee25f6','launch fwd_06a5598c1e5aeaed grid ceildiv(q,64)*b*h block 128 shared 43392 args call
');
CREATE TABLE run ( -- one command that made trials
  id        INTEGER PRIMARY KEY,
  begun     TEXT NOT NULL,
  ended     TEXT, -- NULL: still running, or broken off
  status    TEXT, -- done, interrupted, budget, failed, imported; NULL as above
  command   TEXT NOT NULL,
  version   TEXT NOT NULL, -- of fatune
  driver    TEXT NOT NULL,
  nvrtc     TEXT NOT NULL,
  templates TEXT NOT NULL, -- hash over all templates
  host      TEXT NOT NULL
) STRICT;
INSERT INTO "run" VALUES(1,'2026-11-22T16:19:05.436Z','2026-11-22T16:19:11.498Z','done','fatune tune fwd-f32-b1-h2-q64-k64-d16 --kernel fwd --effort quick --jobs 1 --deadline 2s --db old/w.db --quiet','0.1.0','CUDA 13.0','13.0','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','box');
INSERT INTO "run" VALUES(2,'2026-11-22T16:19:11.569Z','2026-11-22T16:19:17.935Z','done','fatune tune fwd-f32-b1-h2-q128-k128-d16 --kernel fwd --effort quick --jobs 1 --deadline 2s --db old/w.db','0.1.0','CUDA 13.0','13.0','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','box');
INSERT INTO "run" VALUES(3,'2026-11-22T16:19:17.959Z','2026-11-22T16:19:17.959Z','imported','import','0.1.0','CUDA 13.0','13.0','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','box');
INSERT INTO "run" VALUES(4,'2026-11-22T16:19:19.501Z',NULL,NULL,'fatune --gpu L4 --dims 64 --dtypes f32 --kernel fwd --db old/w.db --jobs 1 --quiet','0.1.0','','13.0','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','box');
CREATE TABLE sample ( -- every timing, in order of measurement
  trial INTEGER NOT NULL REFERENCES trial(id) ON DELETE CASCADE,
  n     INTEGER NOT NULL,
  ms    REAL NOT NULL,
  clock REAL, -- effective SM clock, MHz
  PRIMARY KEY (trial, n)
) STRICT, WITHOUT ROWID;
INSERT INTO "sample" VALUES(1,0,2.59600002318620681762e-02,NULL);
INSERT INTO "sample" VALUES(1,1,2.59600002318620681762e-02,NULL);
INSERT INTO "sample" VALUES(1,2,2.59600002318620681762e-02,NULL);
INSERT INTO "sample" VALUES(1,3,2.59600002318620681762e-02,NULL);
INSERT INTO "sample" VALUES(1,4,2.59600002318620681762e-02,NULL);
INSERT INTO "sample" VALUES(2,0,2.62000001966953277587e-02,NULL);
INSERT INTO "sample" VALUES(2,1,2.62000001966953277587e-02,NULL);
INSERT INTO "sample" VALUES(2,2,2.62000001966953277587e-02,NULL);
INSERT INTO "sample" VALUES(2,3,2.62000001966953277587e-02,NULL);
INSERT INTO "sample" VALUES(2,4,2.62000001966953277587e-02,NULL);
INSERT INTO "sample" VALUES(15,0,2.51800008118152618408e-02,NULL);
INSERT INTO "sample" VALUES(15,1,2.51800008118152618408e-02,NULL);
INSERT INTO "sample" VALUES(15,2,2.51800008118152618408e-02,NULL);
INSERT INTO "sample" VALUES(15,3,2.51800008118152618408e-02,NULL);
INSERT INTO "sample" VALUES(15,4,2.51800008118152618408e-02,NULL);
INSERT INTO "sample" VALUES(17,0,3.75400011738141400896e-02,NULL);
INSERT INTO "sample" VALUES(17,1,3.75400011738141400896e-02,NULL);
INSERT INTO "sample" VALUES(17,2,3.75400011738141400896e-02,NULL);
INSERT INTO "sample" VALUES(17,3,3.75400011738141400896e-02,NULL);
INSERT INTO "sample" VALUES(17,4,3.75400011738141400896e-02,NULL);
INSERT INTO "sample" VALUES(18,0,4.36999996503194196306e-02,NULL);
INSERT INTO "sample" VALUES(18,1,4.36999996503194196306e-02,NULL);
INSERT INTO "sample" VALUES(18,2,4.36999996503194196306e-02,NULL);
INSERT INTO "sample" VALUES(18,3,4.36999996503194196306e-02,NULL);
INSERT INTO "sample" VALUES(18,4,4.36999996503194196306e-02,NULL);
INSERT INTO "sample" VALUES(19,0,3.57400005062421186052e-02,NULL);
INSERT INTO "sample" VALUES(19,1,3.57400005062421186052e-02,NULL);
INSERT INTO "sample" VALUES(19,2,3.57400005062421186052e-02,NULL);
INSERT INTO "sample" VALUES(19,3,3.57400005062421186052e-02,NULL);
INSERT INTO "sample" VALUES(19,4,3.57400005062421186052e-02,NULL);
INSERT INTO "sample" VALUES(20,0,2.59600002318620681762e-02,NULL);
INSERT INTO "sample" VALUES(20,1,2.59600002318620681762e-02,NULL);
INSERT INTO "sample" VALUES(20,2,2.59600002318620681762e-02,NULL);
INSERT INTO "sample" VALUES(20,3,2.59600002318620681762e-02,NULL);
INSERT INTO "sample" VALUES(20,4,2.59600002318620681762e-02,NULL);
INSERT INTO "sample" VALUES(22,0,2.62000001966953277587e-02,NULL);
INSERT INTO "sample" VALUES(22,1,2.62000001966953277587e-02,NULL);
INSERT INTO "sample" VALUES(22,2,2.62000001966953277587e-02,NULL);
INSERT INTO "sample" VALUES(22,3,2.62000001966953277587e-02,NULL);
INSERT INTO "sample" VALUES(22,4,2.62000001966953277587e-02,NULL);
INSERT INTO "sample" VALUES(36,0,0.0396399994691213,NULL);
INSERT INTO "sample" VALUES(36,1,0.0396399994691213,NULL);
INSERT INTO "sample" VALUES(36,2,0.0396399994691213,NULL);
INSERT INTO "sample" VALUES(36,3,0.0396399994691213,NULL);
INSERT INTO "sample" VALUES(36,4,0.0396399994691213,NULL);
INSERT INTO "sample" VALUES(37,0,4.3219998478889465332e-02,NULL);
INSERT INTO "sample" VALUES(37,1,4.3219998478889465332e-02,NULL);
INSERT INTO "sample" VALUES(37,2,4.3219998478889465332e-02,NULL);
INSERT INTO "sample" VALUES(37,3,4.3219998478889465332e-02,NULL);
INSERT INTO "sample" VALUES(37,4,4.3219998478889465332e-02,NULL);
INSERT INTO "sample" VALUES(38,0,2.59399991482496261596e-02,NULL);
INSERT INTO "sample" VALUES(38,1,2.59399991482496261596e-02,NULL);
INSERT INTO "sample" VALUES(38,2,2.59399991482496261596e-02,NULL);
INSERT INTO "sample" VALUES(38,3,2.59399991482496261596e-02,NULL);
INSERT INTO "sample" VALUES(38,4,2.59399991482496261596e-02,NULL);
INSERT INTO "sample" VALUES(39,0,0.02518,NULL);
INSERT INTO "sample" VALUES(39,1,0.02518,NULL);
INSERT INTO "sample" VALUES(39,2,0.02518,NULL);
INSERT INTO "sample" VALUES(39,3,0.02518,NULL);
INSERT INTO "sample" VALUES(39,4,0.02518,NULL);
CREATE TABLE source (
  hash      TEXT PRIMARY KEY NOT NULL, -- of the code without its header and #line marks: trial.source
  text      TEXT NOT NULL,             -- the whole text, as NVRTC takes it
  text_hash TEXT NOT NULL              -- of the whole text: damage is found by it
) STRICT;
CREATE TABLE toolchain ( -- what turned source into times, beside the source itself
  id          INTEGER PRIMARY KEY,
  compile_key TEXT NOT NULL, -- NVRTC version, options and the environment variables it reads
  driver      TEXT NOT NULL, -- '' where nothing was launched
  UNIQUE (compile_key, driver)
) STRICT;
INSERT INTO "toolchain" VALUES(1,'nvrtc 13.0 --std=c++17','CUDA 13.0');
INSERT INTO "toolchain" VALUES(2,'nvrtc 13.0 --std=c++17','made for a package, fatune 0.1.0');
INSERT INTO "toolchain" VALUES(3,'nvrtc 13.0 --std=c++17','model 3');
INSERT INTO "toolchain" VALUES(4,'nvrtc 13.0 --std=c++17','on demand, libfatune 0.1.0');
CREATE TABLE trial ( -- one config of one kernel through all stages, and how that ended
  id              INTEGER PRIMARY KEY,
  run             INTEGER REFERENCES run(id),
  problem         INTEGER NOT NULL REFERENCES problem(id),
  device          INTEGER NOT NULL REFERENCES device(id),
  toolchain       INTEGER NOT NULL REFERENCES toolchain(id),
  kernel          TEXT NOT NULL,    -- fwd
  config          TEXT NOT NULL,    -- fwd:Br128-Bc64-t256
  source          TEXT NOT NULL,    -- hash of the generated code; its text may be in table source
  templates       TEXT NOT NULL,    -- hash over all templates when it was made
  origin          TEXT NOT NULL CHECK (origin IN ('measured', 'predicted')),
  outcome         TEXT NOT NULL,    -- ok, wrong, spills, compile-failed, launch-failed, fault, timeout, oom, unfit, slow
  eligible        INTEGER NOT NULL, -- 1: this kernel may be picked unasked
  current         INTEGER NOT NULL, -- 0: the same config was tried again later, with other source or tools
  ms              REAL,             -- measured: median of the samples; predicted: by the model; NULL: no time
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
  detail          TEXT NOT NULL,    -- why it failed
  log             TEXT NOT NULL,    -- compiler log of a failed one
  date            TEXT NOT NULL,
  recipe          TEXT REFERENCES recipe(hash),
  binary          TEXT REFERENCES binary(hash),
  UNIQUE (problem, device, config, source, toolchain, origin)
) STRICT;
INSERT INTO "trial" VALUES(1,1,1,1,1,'fwd','fwd:Br64-Bc32-T128-R2-W4-s0','f71f0fa2bd4e0adffb921d8e1ebb778e1626716804b8ce15df0d96e4710297d3','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','measured','ok',1,1,2.59600002318620681762e-02,2.59600002318620681762e-02,2.59600002318620681762e-02,NULL,2.16867704239120939746e-07,2.73308520961358363465e-06,'latency',126,0,0,16896,3,3.19980137000129616353e-01,5,'finalist: timed in turns with 2 others from 2026-11-22T16:19:11.487Z','','2026-11-22T16:19:11.494Z','0f79efaa8bc0e46f5302915cf2d96e43408f59b990bc20f63aa65e6112705856',NULL);
INSERT INTO "trial" VALUES(2,1,1,1,1,'fwd','fwd:Br16-Bc64-T128-R1-W2-s1','b6346f85a2a9a6c276621b5d8df7eba85fece62884b395a68001767a260b16a5','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','measured','ok',1,1,2.62000001966953277587e-02,2.62000001966953277587e-02,2.62000001966953277587e-02,NULL,2.16867704239120939746e-07,2.73308520961358363465e-06,'launch',127,0,0,14464,4,4.2612798400023166323e-01,5,'finalist: timed in turns with 2 others from 2026-11-22T16:19:11.487Z','','2026-11-22T16:19:11.495Z','727c996429bff33b744166c1aa91864a30e5dadbe8821c26f63eb069e5b9c9e7',NULL);
INSERT INTO "trial" VALUES(15,1,1,1,1,'fwd','fwd:Br16-Bc64-T64-R2-W2-s1','0b30813797bdbef3895827e1a524c4403fdce507ad039fb7898828c872cea2ce','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','measured','ok',1,1,2.51800008118152618408e-02,2.51800008118152618408e-02,2.51800008118152618408e-02,NULL,2.16867704239120939746e-07,2.73308520961358363465e-06,'launch',126,0,0,14464,4,3.355623380002725753e-01,5,'finalist: timed in turns with 2 others from 2026-11-22T16:19:11.487Z','','2026-11-22T16:19:11.493Z','e292952f87a957484b4311e8933488d3f3260776b568c45c37b7e393c73ce121',NULL);
INSERT INTO "trial" VALUES(17,1,1,1,1,'fwd','fwd:Br16-Bc32-T64-R1-W4-s1','15697fc90e62c13c78137b3fbebe9cf68e73fbfa708ddc5aca2deb01664dd46e','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','measured','ok',1,1,3.75400011738141400896e-02,3.75400011738141400896e-02,3.75400011738141400896e-02,NULL,2.16867704239120939746e-07,2.73308520961358363465e-06,'launch',156,0,0,8192,6,0.255717359999835,5,'','','2026-11-22T16:19:10.935Z','5217b3de45d96dae97ab35d2176f143877cb0aa10c23e662d672972886c430ab',NULL);
INSERT INTO "trial" VALUES(18,1,1,1,1,'fwd','fwd:Br16-Bc64-T128-R1-W1-s1','ba3fd59f2ec42ef4d2ec3d36cd2f2e70b58cf6071aa0f0885d828d82763895c9','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','measured','ok',1,1,4.36999996503194196306e-02,4.36999996503194196306e-02,4.36999996503194196306e-02,NULL,2.16867704239120939746e-07,2.73308520961358363465e-06,'launch',111,0,0,14144,4,2.00623588000780728179e-01,5,'','','2026-11-22T16:19:11.163Z','75fdbaacdff25e0bca2fc676392bfca80524b384ef5ab0a76a8d00b821edd016',NULL);
INSERT INTO "trial" VALUES(19,1,1,1,1,'fwd','fwd:Br16-Bc64-T64-R2-W1-s1','8e1c791df24fc6528dc5f5196f911b7daa2ff1d41d547273f0ed67e4b48fbe59','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','measured','ok',1,1,3.57400005062421186052e-02,3.57400005062421186052e-02,3.57400005062421186052e-02,NULL,2.16867704239120939746e-07,2.73308520961358363465e-06,'launch',128,0,0,14144,4,2.93023921999520098324e-01,5,'twin of fwd:Br16-Bc64-T64-R2-W2-s1, for tensors that are not aligned','','2026-11-22T16:19:11.485Z','ef153af0897efe4f29a2753a05bac2f88a2a0a77dc5b32b23ff3df7544b13781',NULL);
INSERT INTO "trial" VALUES(20,2,2,1,1,'fwd','fwd:Br64-Bc32-T128-R2-W4-s0','f71f0fa2bd4e0adffb921d8e1ebb778e1626716804b8ce15df0d96e4710297d3','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','measured','ok',1,1,2.59600002318620681762e-02,2.59600002318620681762e-02,2.59600002318620681762e-02,NULL,2.29182834488028674968e-07,2.79655420192035447874e-06,'latency',126,0,0,16896,3,3.32358748999467934481e-01,5,'finalist: the last round was broken off (fault: cuEventSynchronize fails with CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access); the first times stand','','2026-11-22T16:19:17.932Z','0f79efaa8bc0e46f5302915cf2d96e43408f59b990bc20f63aa65e6112705856',NULL);
INSERT INTO "trial" VALUES(22,2,2,1,1,'fwd','fwd:Br16-Bc64-T128-R1-W2-s1','b6346f85a2a9a6c276621b5d8df7eba85fece62884b395a68001767a260b16a5','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','measured','ok',1,1,2.62000001966953277587e-02,2.62000001966953277587e-02,2.62000001966953277587e-02,NULL,2.29182834488028674968e-07,2.79655420192035447874e-06,'launch',127,0,0,14464,4,2.38658006000150635372e-01,5,'finalist: the last round was broken off (fault: cuEventSynchronize fails with CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access); the first times stand','','2026-11-22T16:19:17.933Z','727c996429bff33b744166c1aa91864a30e5dadbe8821c26f63eb069e5b9c9e7',NULL);
INSERT INTO "trial" VALUES(36,2,2,1,1,'fwd','fwd:Br16-Bc32-T128-R1-W2-s1','a5e1fc317e2b28353e5cb5dd1932e4d0cbc1aa0332c85e964ec74df0e7180f60','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','measured','ok',1,1,0.0396399994691213,0.0396399994691213,0.0396399994691213,NULL,2.29182834488028674968e-07,2.79655420192035447874e-06,'latency',112,0,0,8064,4,2.13738037999974039848e-01,5,'','','2026-11-22T16:19:17.279Z','b39e62d69b41753e2dcf1a142b1c0036d53b40b483c1e2b0ee30631a9eea9f1e',NULL);
INSERT INTO "trial" VALUES(37,2,2,1,1,'fwd','fwd:Br16-Bc128-T64-R2-W2-s1','43c5fea47294af2dbbab6b618044a766ac5684db3f5f00990e8466f550c2f91b','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','measured','ok',1,1,4.3219998478889465332e-02,4.3219998478889465332e-02,4.3219998478889465332e-02,NULL,2.29182834488028674968e-07,2.79655420192035447874e-06,'latency',162,0,0,27264,2,3.68724668000140809454e-01,5,'','','2026-11-22T16:19:17.652Z','b5efd25606e3d176309387e9c86d969bfbd6a52ac2f9d40f6954f3815429c420',NULL);
INSERT INTO "trial" VALUES(38,2,2,1,1,'fwd','fwd:Br64-Bc32-T128-R2-W1-s0','90feca1c673f2b85e63d7b29fb749da67ef9a479bc6ac77be5cee8d48d130c6d','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','measured','ok',1,1,2.59399991482496261596e-02,2.59399991482496261596e-02,2.59399991482496261596e-02,NULL,2.29182834488028674968e-07,2.79655420192035447874e-06,'latency',128,0,0,15744,4,2.19848431000173150096e-01,5,'finalist: the last round was broken off (fault: cuEventSynchronize fails with CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access); the first times stand','','2026-11-22T16:19:17.930Z','c96a65e0087fddef70d19bd5de1e4588d9ac0ddb7ed175bd758b602a13cb3919',NULL);
INSERT INTO "trial" VALUES(39,3,3,1,1,'fwd','fwd:Br16-Bc64-T64-R2-W2-s1','0000013797bdbef3895827e1a524c4403fdce507ad039fb7898828c872cea2ce','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','measured','ok',1,1,0.02518,0.02518,0.02518,NULL,2.16868e-07,2.73309e-06,'launch',126,0,0,14464,4,NULL,5,'finalist: timed in turns with 2 others','','2026-11-22T16:19:11.493Z',NULL,NULL);
INSERT INTO "trial" VALUES(40,3,3,1,1,'fwd','fwd:Br16-Bc64-T64-R2-W1-s1','0000091df24fc6528dc5f5196f911b7daa2ff1d41d547273f0ed67e4b48fbe59','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','measured','ok',1,1,0.03574,0.03574,0.03574,NULL,2.16868e-07,2.73309e-06,'launch',128,0,0,14144,4,NULL,0,'twin of fwd:Br16-Bc64-T64-R2-W2-s1, for tensors that are not aligned','','2026-11-22T16:19:11.485Z',NULL,NULL);
INSERT INTO "trial" VALUES(41,3,3,1,1,'fwd','fwd:Br32-Bc64-T128-R4-W1-s1','00000193fd7e2074ba6267d3cb390d00a1f030e0acc2f883d736fb2d01210a80','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','measured','ok',1,1,0.033,0.033,0.033,NULL,2.16868e-07,2.73309e-06,'launch',124,0,0,20864,3,NULL,0,'','','2026-11-22T16:19:08.410Z',NULL,NULL);
INSERT INTO "trial" VALUES(42,NULL,3,1,2,'fwd','fwd:Br16-Bc64-T64-R2-W2-s1','0b30813797bdbef3895827e1a524c4403fdce507ad039fb7898828c872cea2ce','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','predicted','ok',0,1,NULL,NULL,NULL,NULL,NULL,NULL,'',0,0,0,0,0,NULL,0,'code of a config that was measured with other templates or another NVRTC','','2026-11-22T16:19:19.451Z','e292952f87a957484b4311e8933488d3f3260776b568c45c37b7e393c73ce121',NULL);
INSERT INTO "trial" VALUES(43,NULL,3,1,2,'fwd','fwd:Br16-Bc64-T64-R2-W1-s1','8e1c791df24fc6528dc5f5196f911b7daa2ff1d41d547273f0ed67e4b48fbe59','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','predicted','ok',0,1,NULL,NULL,NULL,NULL,NULL,NULL,'',0,0,0,0,0,NULL,0,'twin of fwd:Br16-Bc64-T64-R2-W2-s1, for tensors that are not aligned','','2026-11-22T16:19:19.452Z','ef153af0897efe4f29a2753a05bac2f88a2a0a77dc5b32b23ff3df7544b13781',NULL);
INSERT INTO "trial" VALUES(44,NULL,3,1,2,'fwd','fwd:Br32-Bc64-T128-R4-W1-s1','4c5ee193fd7e2074ba6267d3cb390d00a1f030e0acc2f883d736fb2d01210a80','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','predicted','ok',0,1,NULL,NULL,NULL,NULL,NULL,NULL,'',0,0,0,0,0,NULL,0,'code of a config that was measured with other templates or another NVRTC','','2026-11-22T16:19:19.453Z','bee113efcec0a1bd828bdb51a534ce20a490fef086405fbd42e5ab1d45ee1766',NULL);
INSERT INTO "trial" VALUES(45,4,4,2,3,'fwd','fwd:Br64-Bc32-T128-R4-W4-s1','0464fd02b3664b53060058123bd3b4423614eb8267446f13c9da62cf5d2b7a12','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','predicted','ok',1,1,2.52722039215686287158e+01,NULL,NULL,NULL,NULL,NULL,'issue',176,0,0,44544,2,3.52622323000105097889e-01,0,'','','2026-11-22T16:19:19.869Z','21903166b7efe55212109da847875d64753a743fc11d4051121695b716d747d5',NULL);
INSERT INTO "trial" VALUES(46,4,5,2,3,'fwd','fwd:Br64-Bc32-T128-R4-W4-s1','745e37ecf66fbf7a1d69d90400812ebfb4e73a2dbcb44d4e06ceec16b7310379','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','predicted','ok',1,1,1.28355098039215675953e+01,NULL,NULL,NULL,NULL,NULL,'issue',192,0,0,44544,2,3.18663281999761238694e-01,0,'','','2026-11-22T16:19:20.187Z','761ff79f0e60f39d4d5d4c9b0f3d6fde87997650fa0a52f0815b2911317c4f1f',NULL);
INSERT INTO "trial" VALUES(53,4,4,2,3,'fwd','fwd:Br64-Bc32-T256-R2-W4-s0','7ecec4b69e3710fc0f92b67147b5fa884f0ea9b8eb4744076c0e7fefd9050570','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','predicted','ok',1,1,3.7745929411764706173e+01,NULL,NULL,NULL,NULL,NULL,'latency',148,0,0,36352,1,2.54654313999708392657e-01,0,'','','2026-11-22T16:19:21.938Z',NULL,NULL);
INSERT INTO "trial" VALUES(54,4,5,2,3,'fwd','fwd:Br128-Bc16-T256-R2-W4-s0','0da3d1f94e7d82e437b99b74a2024e04b515bff34004e5b8b9d84f99b32b33bc','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','predicted','ok',1,1,1.92441647058823548377e+01,NULL,NULL,NULL,NULL,NULL,'latency',168,0,0,49408,1,2.87742473999969661235e-01,0,'','','2026-11-22T16:19:22.229Z',NULL,NULL);
INSERT INTO "trial" VALUES(55,4,4,2,3,'fwd','fwd:Br32-Bc32-T128-R2-W4-s0','490775d4724adc50ab0f4270a4d1b15bbad7b291c5a96bb58535ed6b43d58112','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','predicted','ok',1,1,2.61983215686274526498e+01,NULL,NULL,NULL,NULL,NULL,'issue',148,0,0,22528,3,2.50479828000607085414e-01,0,'','','2026-11-22T16:19:22.483Z',NULL,NULL);
INSERT INTO "trial" VALUES(56,4,5,2,3,'fwd','fwd:Br32-Bc32-T128-R2-W4-s0','423372f9e88c6c7055b462764f8b6ec0d6e76bdc334e8cd1466af711faca9f00','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','predicted','ok',1,1,1.32034823529411760034e+01,NULL,NULL,NULL,NULL,NULL,'issue',152,0,0,22528,3,2.47989423999570135492e-01,0,'','','2026-11-22T16:19:22.734Z',NULL,NULL);
INSERT INTO "trial" VALUES(57,4,4,2,3,'fwd','fwd:Br64-Bc32-T128-R4-W1-s1','b9905401caa575b385cefbed314addf0544f53282270b90e16b80f4f773332a2','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','predicted','ok',1,1,4.36976784313725445923e+01,NULL,NULL,NULL,NULL,NULL,'shared',164,0,0,43392,2,2.62801675999980943743e-01,0,'twin of fwd:Br64-Bc32-T128-R4-W4-s1, for tensors that are not aligned','','2026-11-22T16:19:23.006Z','1fa2db9a08a98bc66987bad67013d88caf7006424a7cca16108bf448a8b49829',NULL);
INSERT INTO "trial" VALUES(58,4,5,2,3,'fwd','fwd:Br64-Bc32-T128-R4-W1-s1','06a5598c1e5aeaed3e400271d7b627d4a7ead5b1fea0baaddc3e83109e582041','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','predicted','ok',1,1,2.21921960784313725416e+01,NULL,NULL,NULL,NULL,NULL,'shared',161,0,0,43392,2,2.69028071999855455942e-01,0,'twin of fwd:Br64-Bc32-T128-R4-W4-s1, for tensors that are not aligned','','2026-11-22T16:19:23.281Z','4efc0ffaf831dc88b9162004c4f93f3122431d46bc5a59285f62062dd7ee25f6',NULL);
INSERT INTO "trial" VALUES(1000,NULL,3,1,4,'fwd','fwd:Br64-Bc32-T128-R4-W4-s1','0000000000000000000000000000000000000000000000000000000000000001','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','predicted','ok',0,1,NULL,NULL,NULL,NULL,NULL,NULL,'',0,0,0,0,0,NULL,0,'compiled on demand: the default config','','2026-11-22T16:19:19.451Z','e292952f87a957484b4311e8933488d3f3260776b568c45c37b7e393c73ce121',NULL);
INSERT INTO "trial" VALUES(1001,NULL,3,1,4,'fwd','fwd:Br32-Bc32-T128-R4-W4-s1','0000000000000000000000000000000000000000000000000000000000000002','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','predicted','ok',0,1,NULL,NULL,NULL,NULL,NULL,NULL,'',0,0,0,0,0,NULL,0,'compiled on demand: the default config without tensor maps','','2026-11-22T16:19:19.451Z','e292952f87a957484b4311e8933488d3f3260776b568c45c37b7e393c73ce121',NULL);
INSERT INTO "trial" VALUES(1002,NULL,3,1,4,'fwd','fwd:Br64-Bc32-T128-R2-W4-s1','0000000000000000000000000000000000000000000000000000000000000003','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','predicted','ok',0,1,NULL,NULL,NULL,NULL,NULL,NULL,'',0,0,0,0,0,NULL,0,'compiled on demand from its stored source','','2026-11-22T16:19:19.451Z','e292952f87a957484b4311e8933488d3f3260776b568c45c37b7e393c73ce121',NULL);
INSERT INTO "trial" VALUES(1003,NULL,3,1,4,'fwd','fwd:Br64-Bc32-T128-R4-W1-s1','0000000000000000000000000000000000000000000000000000000000000004','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','predicted','ok',0,1,NULL,NULL,NULL,NULL,NULL,NULL,'',0,0,0,0,0,NULL,0,'twin of fwd:Br64-Bc32-T128-R4-W4-s1, compiled on demand','','2026-11-22T16:19:19.451Z','e292952f87a957484b4311e8933488d3f3260776b568c45c37b7e393c73ce121',NULL);
CREATE TABLE winner ( -- the one to pick for a problem on a device; chosen in the trial's own transaction
  problem INTEGER NOT NULL REFERENCES problem(id),
  device  INTEGER NOT NULL REFERENCES device(id),
  trial   INTEGER NOT NULL REFERENCES trial(id),
  date    TEXT NOT NULL, -- when it became the winner
  PRIMARY KEY (problem, device)
) STRICT, WITHOUT ROWID;
INSERT INTO "winner" VALUES(1,1,15,'2026-11-22T16:19:10.362Z');
INSERT INTO "winner" VALUES(2,1,38,'2026-11-22T16:19:17.889Z');
INSERT INTO "winner" VALUES(3,1,39,'2026-11-22T16:19:17.960Z');
INSERT INTO "winner" VALUES(4,2,45,'2026-11-22T16:19:19.869Z');
INSERT INTO "winner" VALUES(5,2,46,'2026-11-22T16:19:20.187Z');
CREATE INDEX problem_family ON problem(family);
CREATE INDEX trial_winner ON trial(problem, device, origin, ms)
  WHERE eligible = 1 AND current = 1 AND outcome = 'ok' AND ms > 0;
CREATE INDEX trial_kernel ON trial(problem, device, kernel, origin, ms)
  WHERE current = 1 AND outcome = 'ok' AND ms > 0;
CREATE INDEX trial_run ON trial(run);
CREATE VIEW best AS
SELECT d.name AS gpu, d.sm AS sm, p.text AS problem, p.family AS family, t.kernel AS kernel, t.config AS config,
       t.origin AS origin, t.ms AS ms, p.flops / t.ms / 1e9 AS tflops, t.registers AS registers,
       t.spills AS spills, t.shared AS shared, t.blocks_per_sm AS blocks_per_sm, t.limit_by AS limit_by,
       t.p20 AS p20, t.p80 AS p80, t.samples AS samples, t.clock_mhz AS clock_mhz,
       t.error_max AS error_max, t.error_allowed AS error_allowed, t.source AS source,
       k.compile_key AS compile_key, k.driver AS driver, coalesce(r.nvrtc, '') AS nvrtc, t.date AS date,
       d.facts AS device
FROM winner w JOIN trial t ON t.id = w.trial JOIN problem p ON p.id = w.problem
     JOIN device d ON d.id = w.device JOIN toolchain k ON k.id = t.toolchain LEFT JOIN run r ON r.id = t.run;
CREATE VIEW trials AS
SELECT t.id AS id, t.run AS run, d.name AS gpu, d.sm AS sm, p.text AS problem, p.family AS family,
       t.kernel AS kernel, t.config AS config, t.origin AS origin, t.outcome AS outcome, t.ms AS ms,
       p.flops / t.ms / 1e9 AS tflops, t.registers AS registers, t.stack AS stack, t.spills AS spills,
       t.shared AS shared, t.blocks_per_sm AS blocks_per_sm, t.limit_by AS limit_by, t.p20 AS p20, t.p80 AS p80,
       t.samples AS samples, t.clock_mhz AS clock_mhz, t.error_max AS error_max,
       t.error_allowed AS error_allowed, t.compile_seconds AS compile_seconds, t.detail AS detail,
       t.eligible AS eligible, t.current AS current, t.source AS source, k.compile_key AS compile_key,
       k.driver AS driver, coalesce(r.nvrtc, '') AS nvrtc, t.date AS date, d.facts AS device
FROM trial t JOIN problem p ON p.id = t.problem JOIN device d ON d.id = t.device
     JOIN toolchain k ON k.id = t.toolchain LEFT JOIN run r ON r.id = t.run;
CREATE VIEW failures AS
SELECT t.id AS id, t.run AS run, d.name AS gpu, d.sm AS sm, p.text AS problem, p.family AS family,
       t.kernel AS kernel, t.config AS config, t.outcome AS outcome, t.detail AS detail, t.origin AS origin,
       t.log AS log, t.source AS source, k.compile_key AS compile_key, k.driver AS driver,
       coalesce(r.nvrtc, '') AS nvrtc, t.date AS date, d.facts AS device
FROM trial t JOIN problem p ON p.id = t.problem JOIN device d ON d.id = t.device
     JOIN toolchain k ON k.id = t.toolchain LEFT JOIN run r ON r.id = t.run
WHERE t.outcome <> 'ok';
CREATE VIEW runs AS
SELECT r.id AS id, r.begun AS begun, r.ended AS ended, coalesce(r.status, 'broken off') AS status,
       r.command AS command, (SELECT count(*) FROM trial t WHERE t.run = r.id) AS trials,
       (SELECT count(*) FROM trial t WHERE t.run = r.id AND t.outcome <> 'ok') AS failures,
       r.version AS version, r.driver AS driver, r.nvrtc AS nvrtc, r.templates AS templates, r.host AS host
FROM run r;
COMMIT;
