-- database.v1001.sql -- a tuning database of version 1.1: database.v1000.sql as the program at commit 8d3f602 brought it
-- forward, cut down to two tuned problems on a fake T4, the rows of a library and an L4's predictions.
PRAGMA application_id = 0x6661746e;
PRAGMA user_version = 1001;
BEGIN TRANSACTION;
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
INSERT INTO problem VALUES(1,'fwd-f32-b1-h2-q64-k64-d16','fwd-f32-d16','fwd','f32',1,2,2,64,64,16,16,524288.0);
INSERT INTO problem VALUES(3,'fwd-f32-b1-h2-q32-k32-d16','fwd-f32-d16','fwd','f32',1,2,2,32,32,16,16,131072.0);
INSERT INTO problem VALUES(4,'fwd-f32-b4-h32-q4096-k4096-d64','fwd-f32-d64','fwd','f32',4,32,32,4096,4096,64,64,549755813888.0);
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
INSERT INTO device VALUES(1,'sm75-40SM-65536S-4194304L2-256b-1590+5001MHz','T4',75,40,65536,65536,4194304,256,1590,5001,320.0,16.0);
INSERT INTO device VALUES(2,'sm89-58SM-101376S-50331648L2-192b-2040+6251MHz','L4',89,58,101376,102400,50331648,192,2040,6251,300.0,24.0);
CREATE TABLE toolchain ( -- what turned source into times, beside the source itself
  id          INTEGER PRIMARY KEY,
  compile_key TEXT NOT NULL, -- NVRTC version, options and the environment variables it reads
  driver      TEXT NOT NULL, -- '' where nothing was launched
  made_by     TEXT NOT NULL, -- '': measured by a tune; else what predicted or compiled: model 3, package 0.1.0,
                             -- libfatune 0.1.0
  UNIQUE (compile_key, driver, made_by)
) STRICT;
INSERT INTO toolchain VALUES(1,'nvrtc 13.0 --std=c++17','CUDA 13.0','');
INSERT INTO toolchain VALUES(2,'nvrtc 13.0 --std=c++17','','package 0.1.0');
INSERT INTO toolchain VALUES(3,'nvrtc 13.0 --std=c++17','','model 3');
INSERT INTO toolchain VALUES(4,'nvrtc 13.0 --std=c++17','','libfatune 0.1.0');
CREATE TABLE run ( -- one command that made trials
  id        INTEGER PRIMARY KEY,
  begun     TEXT NOT NULL,
  ended     TEXT,          -- NULL: running, or stopped without a word
  status    TEXT NOT NULL, -- running, done, interrupted, budget, failed, imported; stopped: killed, as the next tune
                           -- of that GPU found (`fatune show runs` says so at once)
  device    TEXT NOT NULL, -- facts of the GPU that was tuned; '' for an import
  command   TEXT NOT NULL,
  version   TEXT NOT NULL, -- of fatune
  driver    TEXT NOT NULL,
  nvrtc     TEXT NOT NULL,
  templates TEXT NOT NULL, -- hash over all templates
  model     TEXT NOT NULL, -- that made its forecasts: model 3
  host      TEXT NOT NULL
) STRICT;
INSERT INTO run VALUES(1,'2026-11-22T16:19:05.436Z','2026-11-22T16:19:11.498Z','done','sm75-40SM-65536S-4194304L2-256b-1590+5001MHz','fatune tune fwd-f32-b1-h2-q64-k64-d16 --kernel fwd --effort quick --jobs 1 --deadline 2s --db old/w.db --quiet','0.1.0','CUDA 13.0','13.0','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','','box');
INSERT INTO run VALUES(3,'2026-11-22T16:19:17.959Z','2026-11-22T16:19:17.959Z','imported','','import','0.1.0','CUDA 13.0','13.0','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','','box');
INSERT INTO run VALUES(4,'2026-11-22T16:19:19.501Z',NULL,'stopped','sm89-58SM-101376S-50331648L2-192b-2040+6251MHz','fatune --gpu L4 --dims 64 --dtypes f32 --kernel fwd --db old/w.db --jobs 1 --quiet','0.1.0','','13.0','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','','box');
CREATE TABLE rejection ( -- configs that a run did not try because a rule says that they cannot work
  run     INTEGER NOT NULL REFERENCES run(id),
  problem INTEGER NOT NULL REFERENCES problem(id),
  device  INTEGER NOT NULL REFERENCES device(id),
  kernel  TEXT NOT NULL,
  reason  TEXT NOT NULL,
  count   INTEGER NOT NULL,
  PRIMARY KEY (run, problem, device, kernel, reason)
) STRICT, WITHOUT ROWID;
CREATE TABLE source (
  hash      TEXT PRIMARY KEY NOT NULL, -- of the code without its header and #line marks: trial.source
  text      TEXT NOT NULL,             -- the whole text, as NVRTC takes it
  text_hash TEXT NOT NULL              -- of the whole text: damage is found by it
) STRICT;
CREATE TABLE recipe ( -- how a binary is launched
  hash TEXT PRIMARY KEY NOT NULL,
  text TEXT NOT NULL
) STRICT;
INSERT INTO recipe VALUES('0f79efaa8bc0e46f5302915cf2d96e43408f59b990bc20f63aa65e6112705856',replace('launch fwd_f71f0fa2bd4e0adf grid ceildiv(q,64)*b*h block 128 shared 16896 args call\n','\n',char(10)));
INSERT INTO recipe VALUES('727c996429bff33b744166c1aa91864a30e5dadbe8821c26f63eb069e5b9c9e7',replace('launch fwd_b6346f85a2a9a6c2 grid ceildiv(q,16)*b*h block 128 shared 14464 args call\n','\n',char(10)));
INSERT INTO recipe VALUES('e292952f87a957484b4311e8933488d3f3260776b568c45c37b7e393c73ce121',replace('launch fwd_0b30813797bdbef3 grid ceildiv(q,16)*b*h block 64 shared 14464 args call\n','\n',char(10)));
INSERT INTO recipe VALUES('ef153af0897efe4f29a2753a05bac2f88a2a0a77dc5b32b23ff3df7544b13781',replace('launch fwd_8e1c791df24fc652 grid ceildiv(q,16)*b*h block 64 shared 14144 args call\n','\n',char(10)));
INSERT INTO recipe VALUES('c96a65e0087fddef70d19bd5de1e4588d9ac0ddb7ed175bd758b602a13cb3919',replace('launch fwd_90feca1c673f2b85 grid ceildiv(q,64)*b*h block 128 shared 15744 args call\n','\n',char(10)));
INSERT INTO recipe VALUES('bee113efcec0a1bd828bdb51a534ce20a490fef086405fbd42e5ab1d45ee1766',replace('launch fwd_4c5ee193fd7e2074 grid ceildiv(q,32)*b*h block 128 shared 20864 args call\n','\n',char(10)));
INSERT INTO recipe VALUES('b39e62d69b41753e2dcf1a142b1c0036d53b40b483c1e2b0ee30631a9eea9f1e',replace('launch fwd_a5e1fc317e2b2835 grid ceildiv(q,16)*b*h block 128 shared 8064 args call\n','\n',char(10)));
INSERT INTO recipe VALUES('5217b3de45d96dae97ab35d2176f143877cb0aa10c23e662d672972886c430ab',replace('launch fwd_15697fc90e62c13c grid ceildiv(q,16)*b*h block 64 shared 8192 args call\n','\n',char(10)));
INSERT INTO recipe VALUES('75fdbaacdff25e0bca2fc676392bfca80524b384ef5ab0a76a8d00b821edd016',replace('launch fwd_ba3fd59f2ec42ef4 grid ceildiv(q,16)*b*h block 128 shared 14144 args call\n','\n',char(10)));
INSERT INTO recipe VALUES('b5efd25606e3d176309387e9c86d969bfbd6a52ac2f9d40f6954f3815429c420',replace('launch fwd_43c5fea47294af2d grid ceildiv(q,16)*b*h block 64 shared 27264 args call\n','\n',char(10)));
INSERT INTO recipe VALUES('21903166b7efe55212109da847875d64753a743fc11d4051121695b716d747d5',replace('launch fwd_0464fd02b3664b53 grid ceildiv(q,64)*b*h block 128 shared 44544 args call\n','\n',char(10)));
INSERT INTO recipe VALUES('761ff79f0e60f39d4d5d4c9b0f3d6fde87997650fa0a52f0815b2911317c4f1f',replace('launch fwd_745e37ecf66fbf7a grid ceildiv(q,64)*b*h block 128 shared 44544 args call\n','\n',char(10)));
INSERT INTO recipe VALUES('1fa2db9a08a98bc66987bad67013d88caf7006424a7cca16108bf448a8b49829',replace('launch fwd_b9905401caa575b3 grid ceildiv(q,64)*b*h block 128 shared 43392 args call\n','\n',char(10)));
INSERT INTO recipe VALUES('4efc0ffaf831dc88b9162004c4f93f3122431d46bc5a59285f62062dd7ee25f6',replace('launch fwd_06a5598c1e5aeaed grid ceildiv(q,64)*b*h block 128 shared 43392 args call\n','\n',char(10)));
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
INSERT INTO trial VALUES(1,1,1,1,1,'fwd','fwd:Br64-Bc32-T128-R2-W4-s0','{"Br":64,"Bc":32,"T":128,"R":2,"W":4,"s":0}','f71f0fa2bd4e0adffb921d8e1ebb778e1626716804b8ce15df0d96e4710297d3','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','measured','ok',1,1,1,'','2026-11-22T16:19:11.487Z',2,'',0.025960000231862068176,NULL,0.025960000231862068176,0.025960000231862068176,NULL,2.1686770423912093974e-07,2.7330852096135836346e-06,'latency',126,0,0,16896,3,0.31998013700012961635,3,'','','2026-11-22T16:19:11.494Z','0f79efaa8bc0e46f5302915cf2d96e43408f59b990bc20f63aa65e6112705856',NULL);
INSERT INTO trial VALUES(2,1,1,1,1,'fwd','fwd:Br16-Bc64-T128-R1-W2-s1','{"Br":16,"Bc":64,"T":128,"R":1,"W":2,"s":1}','b6346f85a2a9a6c276621b5d8df7eba85fece62884b395a68001767a260b16a5','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','measured','ok',1,1,1,'','2026-11-22T16:19:11.487Z',2,'',0.026200000196695327758,NULL,0.026200000196695327758,0.026200000196695327758,NULL,2.1686770423912093974e-07,2.7330852096135836346e-06,'launch',127,0,0,14464,4,0.42612798400023166323,3,'','','2026-11-22T16:19:11.495Z','727c996429bff33b744166c1aa91864a30e5dadbe8821c26f63eb069e5b9c9e7',NULL);
INSERT INTO trial VALUES(15,1,1,1,1,'fwd','fwd:Br16-Bc64-T64-R2-W2-s1','{"Br":16,"Bc":64,"T":64,"R":2,"W":2,"s":1}','0b30813797bdbef3895827e1a524c4403fdce507ad039fb7898828c872cea2ce','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','measured','ok',1,1,1,'','2026-11-22T16:19:11.487Z',2,'',0.02518000081181526184,NULL,0.02518000081181526184,0.02518000081181526184,NULL,2.1686770423912093974e-07,2.7330852096135836346e-06,'launch',126,0,0,14464,4,0.3355623380002725753,3,'','','2026-11-22T16:19:11.493Z','e292952f87a957484b4311e8933488d3f3260776b568c45c37b7e393c73ce121',NULL);
INSERT INTO trial VALUES(17,1,1,1,1,'fwd','fwd:Br16-Bc32-T64-R1-W4-s1','{"Br":16,"Bc":32,"T":64,"R":1,"W":4,"s":1}','15697fc90e62c13c78137b3fbebe9cf68e73fbfa708ddc5aca2deb01664dd46e','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','measured','ok',1,1,1,'','',0,'',0.037540001173814140089,NULL,0.037540001173814140089,0.037540001173814140089,NULL,2.1686770423912093974e-07,2.7330852096135836346e-06,'launch',156,0,0,8192,6,0.25571735999983502551,3,'','','2026-11-22T16:19:10.935Z','5217b3de45d96dae97ab35d2176f143877cb0aa10c23e662d672972886c430ab',NULL);
INSERT INTO trial VALUES(18,1,1,1,1,'fwd','fwd:Br16-Bc64-T128-R1-W1-s1','{"Br":16,"Bc":64,"T":128,"R":1,"W":1,"s":1}','ba3fd59f2ec42ef4d2ec3d36cd2f2e70b58cf6071aa0f0885d828d82763895c9','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','measured','ok',1,1,1,'','',0,'',0.04369999965031941963,NULL,0.04369999965031941963,0.04369999965031941963,NULL,2.1686770423912093974e-07,2.7330852096135836346e-06,'launch',111,0,0,14144,4,0.20062358800078072817,3,'','','2026-11-22T16:19:11.163Z','75fdbaacdff25e0bca2fc676392bfca80524b384ef5ab0a76a8d00b821edd016',NULL);
INSERT INTO trial VALUES(19,1,1,1,1,'fwd','fwd:Br16-Bc64-T64-R2-W1-s1','{"Br":16,"Bc":64,"T":64,"R":2,"W":1,"s":1}','8e1c791df24fc6528dc5f5196f911b7daa2ff1d41d547273f0ed67e4b48fbe59','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','measured','ok',1,1,1,'fwd:Br16-Bc64-T64-R2-W2-s1','',0,'',0.035740000506242118605,NULL,0.035740000506242118605,0.035740000506242118605,NULL,2.1686770423912093974e-07,2.7330852096135836346e-06,'launch',128,0,0,14144,4,0.29302392199952009832,3,'','','2026-11-22T16:19:11.485Z','ef153af0897efe4f29a2753a05bac2f88a2a0a77dc5b32b23ff3df7544b13781',NULL);
INSERT INTO trial VALUES(39,3,3,1,1,'fwd','fwd:Br16-Bc64-T64-R2-W2-s1','{"Br":16,"Bc":64,"T":64,"R":2,"W":2,"s":1}','0000013797bdbef3895827e1a524c4403fdce507ad039fb7898828c872cea2ce','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','measured','ok',1,1,1,'','unknown',2,'',0.025180000000000000992,NULL,0.025180000000000000992,0.025180000000000000992,NULL,2.1686800000000000672e-07,2.7330899999999998652e-06,'launch',126,0,0,14464,4,NULL,3,'','','2026-11-22T16:19:11.493Z',NULL,NULL);
INSERT INTO trial VALUES(40,3,3,1,1,'fwd','fwd:Br16-Bc64-T64-R2-W1-s1','{"Br":16,"Bc":64,"T":64,"R":2,"W":1,"s":1}','0000091df24fc6528dc5f5196f911b7daa2ff1d41d547273f0ed67e4b48fbe59','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','measured','ok',1,1,1,'fwd:Br16-Bc64-T64-R2-W2-s1','',0,'',0.035740000000000000934,NULL,0.035740000000000000934,0.035740000000000000934,NULL,2.1686800000000000672e-07,2.7330899999999998652e-06,'launch',128,0,0,14144,4,NULL,0,'','','2026-11-22T16:19:11.485Z',NULL,NULL);
INSERT INTO trial VALUES(41,3,3,1,1,'fwd','fwd:Br32-Bc64-T128-R4-W1-s1','{"Br":32,"Bc":64,"T":128,"R":4,"W":1,"s":1}','00000193fd7e2074ba6267d3cb390d00a1f030e0acc2f883d736fb2d01210a80','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','measured','ok',1,1,1,'','',0,'',0.033000000000000001554,NULL,0.033000000000000001554,0.033000000000000001554,NULL,2.1686800000000000672e-07,2.7330899999999998652e-06,'launch',124,0,0,20864,3,NULL,0,'','','2026-11-22T16:19:08.410Z',NULL,NULL);
INSERT INTO trial VALUES(42,NULL,3,1,2,'fwd','fwd:Br16-Bc64-T64-R2-W2-s1','{"Br":16,"Bc":64,"T":64,"R":2,"W":2,"s":1}','0b30813797bdbef3895827e1a524c4403fdce507ad039fb7898828c872cea2ce','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','predicted','ok',0,1,1,'','',0,'',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'',0,0,0,0,0,NULL,0,'code of a config that was measured with other templates or another NVRTC','','2026-11-22T16:19:19.451Z','e292952f87a957484b4311e8933488d3f3260776b568c45c37b7e393c73ce121',NULL);
INSERT INTO trial VALUES(43,NULL,3,1,2,'fwd','fwd:Br16-Bc64-T64-R2-W1-s1','{"Br":16,"Bc":64,"T":64,"R":2,"W":1,"s":1}','8e1c791df24fc6528dc5f5196f911b7daa2ff1d41d547273f0ed67e4b48fbe59','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','predicted','ok',0,1,1,'fwd:Br16-Bc64-T64-R2-W2-s1','',0,'',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'',0,0,0,0,0,NULL,0,'','','2026-11-22T16:19:19.452Z','ef153af0897efe4f29a2753a05bac2f88a2a0a77dc5b32b23ff3df7544b13781',NULL);
INSERT INTO trial VALUES(44,NULL,3,1,2,'fwd','fwd:Br32-Bc64-T128-R4-W1-s1','{"Br":32,"Bc":64,"T":128,"R":4,"W":1,"s":1}','4c5ee193fd7e2074ba6267d3cb390d00a1f030e0acc2f883d736fb2d01210a80','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','predicted','ok',0,1,1,'','',0,'',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'',0,0,0,0,0,NULL,0,'code of a config that was measured with other templates or another NVRTC','','2026-11-22T16:19:19.453Z','bee113efcec0a1bd828bdb51a534ce20a490fef086405fbd42e5ab1d45ee1766',NULL);
INSERT INTO trial VALUES(45,4,4,2,3,'fwd','fwd:Br64-Bc32-T128-R4-W4-s1','{"Br":64,"Bc":32,"T":128,"R":4,"W":4,"s":1}','0464fd02b3664b53060058123bd3b4423614eb8267446f13c9da62cf5d2b7a12','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','predicted','ok',1,1,1,'','',0,'',25.272203921568628715,25.272203921568628715,NULL,NULL,NULL,NULL,NULL,'issue',176,0,0,44544,2,0.35262232300010509788,0,'','','2026-11-22T16:19:19.869Z','21903166b7efe55212109da847875d64753a743fc11d4051121695b716d747d5',NULL);
INSERT INTO trial VALUES(53,4,4,2,3,'fwd','fwd:Br64-Bc32-T256-R2-W4-s0','{"Br":64,"Bc":32,"T":256,"R":2,"W":4,"s":0}','7ecec4b69e3710fc0f92b67147b5fa884f0ea9b8eb4744076c0e7fefd9050570','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','predicted','ok',1,1,1,'','',0,'',37.745929411764706173,37.745929411764706173,NULL,NULL,NULL,NULL,NULL,'latency',148,0,0,36352,1,0.25465431399970839265,0,'','','2026-11-22T16:19:21.938Z',NULL,NULL);
INSERT INTO trial VALUES(55,4,4,2,3,'fwd','fwd:Br32-Bc32-T128-R2-W4-s0','{"Br":32,"Bc":32,"T":128,"R":2,"W":4,"s":0}','490775d4724adc50ab0f4270a4d1b15bbad7b291c5a96bb58535ed6b43d58112','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','predicted','ok',1,1,1,'','',0,'',26.198321568627452649,26.198321568627452649,NULL,NULL,NULL,NULL,NULL,'issue',148,0,0,22528,3,0.25047982800060708541,0,'','','2026-11-22T16:19:22.483Z',NULL,NULL);
INSERT INTO trial VALUES(57,4,4,2,3,'fwd','fwd:Br64-Bc32-T128-R4-W1-s1','{"Br":64,"Bc":32,"T":128,"R":4,"W":1,"s":1}','b9905401caa575b385cefbed314addf0544f53282270b90e16b80f4f773332a2','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','predicted','ok',1,1,1,'fwd:Br64-Bc32-T128-R4-W4-s1','',0,'',43.697678431372544592,43.697678431372544592,NULL,NULL,NULL,NULL,NULL,'shared',164,0,0,43392,2,0.26280167599998094374,0,'','','2026-11-22T16:19:23.006Z','1fa2db9a08a98bc66987bad67013d88caf7006424a7cca16108bf448a8b49829',NULL);
INSERT INTO trial VALUES(1000,NULL,3,1,4,'fwd','fwd:Br64-Bc32-T128-R4-W4-s1','{"Br":64,"Bc":32,"T":128,"R":4,"W":4,"s":1}','0000000000000000000000000000000000000000000000000000000000000001','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','predicted','ok',0,1,1,'','',0,'default',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'',0,0,0,0,0,NULL,0,'','','2026-11-22T16:19:19.451Z','e292952f87a957484b4311e8933488d3f3260776b568c45c37b7e393c73ce121',NULL);
INSERT INTO trial VALUES(1001,NULL,3,1,4,'fwd','fwd:Br32-Bc32-T128-R4-W4-s1','{"Br":32,"Bc":32,"T":128,"R":4,"W":4,"s":1}','0000000000000000000000000000000000000000000000000000000000000002','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','predicted','ok',0,1,1,'','',0,'default without maps',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'',0,0,0,0,0,NULL,0,'','','2026-11-22T16:19:19.451Z','e292952f87a957484b4311e8933488d3f3260776b568c45c37b7e393c73ce121',NULL);
INSERT INTO trial VALUES(1002,NULL,3,1,4,'fwd','fwd:Br64-Bc32-T128-R2-W4-s1','{"Br":64,"Bc":32,"T":128,"R":2,"W":4,"s":1}','0000000000000000000000000000000000000000000000000000000000000003','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','predicted','ok',0,1,1,'','',0,'rebuilt',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'',0,0,0,0,0,NULL,0,'','','2026-11-22T16:19:19.451Z','e292952f87a957484b4311e8933488d3f3260776b568c45c37b7e393c73ce121',NULL);
INSERT INTO trial VALUES(1003,NULL,3,1,4,'fwd','fwd:Br64-Bc32-T128-R4-W1-s1','{"Br":64,"Bc":32,"T":128,"R":4,"W":1,"s":1}','0000000000000000000000000000000000000000000000000000000000000004','0e96153c293a6c69965813807a88972d2fb8c755042aaa4d770c06aa592f1977','predicted','ok',0,1,1,'fwd:Br64-Bc32-T128-R4-W4-s1','',0,'twin',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'',0,0,0,0,0,NULL,0,'','','2026-11-22T16:19:19.451Z','e292952f87a957484b4311e8933488d3f3260776b568c45c37b7e393c73ce121',NULL);
CREATE TABLE sample ( -- every timing, in order of measurement
  trial INTEGER NOT NULL REFERENCES trial(id) ON DELETE CASCADE,
  n     INTEGER NOT NULL,
  ms    REAL NOT NULL,
  clock REAL, -- effective SM clock, MHz
  PRIMARY KEY (trial, n)
) STRICT, WITHOUT ROWID;
INSERT INTO sample VALUES(1,0,0.025960000231862068176,NULL);
INSERT INTO sample VALUES(1,1,0.025960000231862068176,NULL);
INSERT INTO sample VALUES(1,2,0.025960000231862068176,NULL);
INSERT INTO sample VALUES(2,0,0.026200000196695327758,NULL);
INSERT INTO sample VALUES(2,1,0.026200000196695327758,NULL);
INSERT INTO sample VALUES(2,2,0.026200000196695327758,NULL);
INSERT INTO sample VALUES(15,0,0.02518000081181526184,NULL);
INSERT INTO sample VALUES(15,1,0.02518000081181526184,NULL);
INSERT INTO sample VALUES(15,2,0.02518000081181526184,NULL);
INSERT INTO sample VALUES(17,0,0.037540001173814140089,NULL);
INSERT INTO sample VALUES(17,1,0.037540001173814140089,NULL);
INSERT INTO sample VALUES(17,2,0.037540001173814140089,NULL);
INSERT INTO sample VALUES(18,0,0.04369999965031941963,NULL);
INSERT INTO sample VALUES(18,1,0.04369999965031941963,NULL);
INSERT INTO sample VALUES(18,2,0.04369999965031941963,NULL);
INSERT INTO sample VALUES(19,0,0.035740000506242118605,NULL);
INSERT INTO sample VALUES(19,1,0.035740000506242118605,NULL);
INSERT INTO sample VALUES(19,2,0.035740000506242118605,NULL);
INSERT INTO sample VALUES(39,0,0.025180000000000000992,NULL);
INSERT INTO sample VALUES(39,1,0.025180000000000000992,NULL);
INSERT INTO sample VALUES(39,2,0.025180000000000000992,NULL);
CREATE TABLE winner ( -- the one to pick for a problem on a device; chosen in the trial's own transaction
  problem INTEGER NOT NULL REFERENCES problem(id),
  device  INTEGER NOT NULL REFERENCES device(id),
  trial   INTEGER NOT NULL REFERENCES trial(id),
  date    TEXT NOT NULL, -- when it became the winner
  PRIMARY KEY (problem, device)
) STRICT, WITHOUT ROWID;
INSERT INTO winner VALUES(1,1,15,'2026-11-22T16:19:10.362Z');
INSERT INTO winner VALUES(3,1,39,'2026-11-22T16:19:17.960Z');
INSERT INTO winner VALUES(4,2,45,'2026-11-22T16:19:19.869Z');
CREATE INDEX problem_family ON problem(family);
CREATE UNIQUE INDEX trial_key ON trial(problem, device, config, source, toolchain, origin, coalesce(run, 0));
CREATE INDEX trial_winner ON trial(problem, device, origin, ms)
  WHERE eligible = 1 AND current = 1 AND outcome = 'ok' AND ms > 0;
CREATE INDEX trial_kernel ON trial(problem, device, kernel, origin, ms)
  WHERE current = 1 AND outcome = 'ok' AND ms > 0;
CREATE INDEX trial_run ON trial(run);
CREATE VIEW history AS -- every trial of every run
SELECT t.id AS id, t.run AS run, d.name AS gpu, d.sm AS sm, p.text AS problem, p.family AS family,
       t.kernel AS kernel, t.config AS config, t.tunables AS tunables, t.origin AS origin, t.outcome AS outcome,
       t.ms AS ms, t.forecast AS forecast, p.flops / t.ms / 1e9 AS tflops, t.registers AS registers,
       t.stack AS stack, t.spills AS spills, t.shared AS shared, t.blocks_per_sm AS blocks_per_sm,
       t.limit_by AS limit_by, t.p20 AS p20, t.p80 AS p80, t.samples AS samples, t.clock_mhz AS clock_mhz,
       t.error_max AS error_max, t.error_allowed AS error_allowed, t.compile_seconds AS compile_seconds,
       t.twin_of AS twin_of, t.race AS race, t.rivals AS rivals, t.made_as AS made_as, t.detail AS detail,
       t.log AS log, t.eligible AS eligible, t.current AS current, t.latest AS latest, t.source AS source,
       k.compile_key AS compile_key, k.driver AS driver, k.made_by AS made_by, coalesce(r.nvrtc, '') AS nvrtc,
       t.date AS date, d.facts AS device
FROM trial t JOIN problem p ON p.id = t.problem JOIN device d ON d.id = t.device
     JOIN toolchain k ON k.id = t.toolchain LEFT JOIN run r ON r.id = t.run
;
CREATE VIEW trials AS -- what stands of it
SELECT * FROM history WHERE latest = 1
;
CREATE VIEW best AS
SELECT h.gpu, h.sm, h.problem, h.family, h.kernel, h.config, h.tunables, h.origin, h.ms, h.forecast, h.tflops,
       h.registers, h.spills, h.shared, h.blocks_per_sm, h.limit_by, h.p20, h.p80, h.samples, h.clock_mhz,
       h.error_max, h.error_allowed, h.race, h.rivals, h.source, h.compile_key, h.driver, h.made_by, h.nvrtc,
       h.date, h.device
FROM winner w JOIN history h ON h.id = w.trial;
CREATE VIEW failures AS
SELECT id, run, gpu, sm, problem, family, kernel, config, tunables, outcome, detail, registers, stack, spills,
       shared, blocks_per_sm, origin, log, source, compile_key, driver, made_by, nvrtc, date, device
FROM trials WHERE outcome <> 'ok';
CREATE VIEW runs AS
SELECT r.id AS id, r.begun AS begun, r.ended AS ended, r.status AS status, r.command AS command,
       (SELECT count(*) FROM trial t WHERE t.run = r.id) AS trials,
       (SELECT count(*) FROM trial t WHERE t.run = r.id AND t.outcome <> 'ok') AS failures,
       (SELECT coalesce(sum(j.count), 0) FROM rejection j WHERE j.run = r.id) AS rejected,
       r.version AS version, r.driver AS driver, r.nvrtc AS nvrtc, r.templates AS templates, r.model AS model,
       r.host AS host, r.device AS device
FROM run r;
CREATE VIEW rejections AS
SELECT j.run AS run, d.name AS gpu, p.text AS problem, j.kernel AS kernel, j.count AS count, j.reason AS reason,
       d.facts AS device
FROM rejection j JOIN problem p ON p.id = j.problem JOIN device d ON d.id = j.device;
CREATE VIEW tunables AS -- the trials that work, with a column for each tunable that several kernels have
SELECT id, gpu, problem, config, origin, ms, tflops, kernel, json_extract(tunables, '$.Br') AS rows_of_q,
       json_extract(tunables, '$.Bc') AS rows_of_k, json_extract(tunables, '$.T') AS threads,
       json_extract(tunables, '$.w') AS warps, json_extract(tunables, '$.s') AS stages,
       json_extract(tunables, '$.W') AS width, json_extract(tunables, '$.L') AS seldom_rescaled, tunables, device
FROM trials WHERE outcome = 'ok'
;
COMMIT;
