//! The reports of `hdfs fsck`.

use super::*;
use crate::namenode::checking::CheckRequest;

impl Fixture {
    /// The report for a query such as `path=/a&files=1`, and in how many steps it was made.
    fn check_in_steps(&mut self, query: &str, user: &User) -> (String, usize) {
        let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap());
        let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut check = Check::new(CheckRequest::parse(pairs).unwrap(), user.clone());
        let (mut report, mut steps) = (String::new(), 0);
        while let Some(text) = self.state.check_on(&mut check, self.now) {
            report += &text;
            steps += 1;
            // As the NameNode's HTTP port does it.
            for LostFile { path: src, .. } in check.take_lost() {
                let request = Bytes::from(calls::DeleteRequest { src, recursive: true }.encode_to_vec());
                let Self { state, now, random, .. } = &mut *self;
                let mut context = Context { now: *now, user, caller: None, ip: None, random };
                if state.call(&mut context, "delete", request).is_err() {
                    check.note_failure();
                }
            }
        }
        (report, steps)
    }

    fn check(&mut self, query: &str) -> String {
        let user = self.user.clone();
        self.check_in_steps(query, &user).0
    }

    pub(super) fn rot(&mut self, number: usize, block: &ExtendedBlock, length: u64) {
        let replica = replica(block, length, ReplicaState::Finalized);
        let notice = Notice {
            storage: format!("DS-{number}"),
            replica: Some(replica),
            is_corrupt: true,
            ..Notice::default()
        };
        let request = NoticeRequest { uuid: format!("dn-{number}"), notices: vec![notice] };
        let _: Answer = self.cluster("notice", &request).unwrap();
    }
}

#[track_caller]
fn assert_has(report: &str, lines: &[&str]) {
    for line in lines {
        assert!(report.contains(line), "no {line:?} in\n{report}");
    }
}

#[test]
fn a_healthy_file_has_its_line_its_blocks_and_their_places() {
    let mut fixture = Fixture::new(3);
    fixture.mkdir("/d/empty");
    let block = fixture.write("/d/f", 700).block;
    fixture.tick();
    let report = fixture.check("path=/d&files=1&blocks=1&locations=1");
    let name = format!("BP-1:blk_{}_{}", block.id, block.stamp);
    assert_has(
        &report,
        &[
            "FSCK started by root (auth:SIMPLE) for path /d at Thu Jan 01 00:33:20 UTC 1970\n/d <dir>\n/d/empty <dir>\n",
            "/d/f 700 bytes, replicated: replication=3, 1 block(s):  OK\n",
            &format!("\n0. {name} len=700 Live_repl=3  [DatanodeInfoWithStorage[10.0.0."),
            ":9866,DS-0,DISK]",
            "\nStatus: HEALTHY\n Number of data-nodes:\t3\n Number of racks:\t\t1\n Total dirs:\t\t\t2\n",
            " Total blocks (validated):\t1 (avg. block size 700 B)\n Minimally replicated blocks:\t1 (100.0 %)\n",
            " Average block replication:\t3.0\n",
        ],
    );
    assert!(report.ends_with("\n\nThe filesystem under path '/d' is HEALTHY"), "{report}");
    let racks = fixture.check("path=/d/f&files=1&blocks=1&racks=1&replicadetails=1");
    assert_has(&racks, &["/default-rack/10.0.0.0:9866(STALE_BLOCK_CONTENT)"]);
    fixture.report(0, true, true, vec![replica(&block, 700, ReplicaState::Finalized)]);
    let racks = fixture.check("path=/d/f&files=1&blocks=1&racks=1&replicadetails=1");
    assert_has(&racks, &["/default-rack/10.0.0.0:9866(LIVE)"]);
}

#[test]
fn what_cannot_be_read_makes_the_status_corrupt() {
    let mut fixture = Fixture::new(3);
    let lost = fixture.write("/lost", 700).block;
    let rotten = fixture.write("/rotten", 900).block;
    let short = fixture.write("/short", 50).block;
    fixture.write("/whole", 60);
    for number in 0..3 {
        fixture.notice(number, &lost, 700, true);
        fixture.rot(number, &rotten, 900);
    }
    fixture.notice(0, &short, 50, true);
    fixture.tick();
    let report = fixture.check("path=/");
    assert_has(
        &report,
        &[
            "\n/lost: MISSING 1 blocks of total size 700 B.",
            &format!("\n/rotten: CORRUPT blockpool BP-1 block blk_{}\n", rotten.id),
            "\n/rotten: CORRUPT 1 blocks of total size 900 B.",
            &format!(
                "\n/short:  Under replicated BP-1:blk_{}_{}. Target Replicas is 3 but found 2 live replica(s)",
                short.id, short.stamp
            ),
            "\nStatus: CORRUPT\n",
            "  CORRUPT FILES:\t2\n  MISSING BLOCKS:\t1\n  MISSING SIZE:\t\t700 B\n  CORRUPT BLOCKS: \t1\n  CORRUPT SIZE:\t\t900 B\n",
            " Minimally replicated blocks:\t2 (50.0 %)\n",
            " Missing replicas:\t\t1 (",
        ],
    );
    assert!(report.ends_with("The filesystem under path '/' is CORRUPT"), "{report}");
    assert!(fixture.check("path=/whole").ends_with("The filesystem under path '/whole' is HEALTHY"));
    let list = fixture.check("path=/&listcorruptfileblocks=1");
    let expected = format!("blk_{}\t/lost\nblk_{}\t/rotten\n", lost.id, rotten.id);
    assert_has(&list, &[&expected, "\nThe filesystem under path '/' has no more CORRUPT files\n"]);
    let none = fixture.check("path=/whole&listcorruptfileblocks=1");
    assert_has(&none, &["\nThe filesystem under path '/whole' has no CORRUPT files\n"]);
}

#[test]
fn files_that_cannot_be_read_are_removed_if_that_is_wanted_and_allowed() {
    let mut fixture = Fixture::new(3);
    for (path, length) in [("/d/lost", 700), ("/d/e/lost", 700), ("/d/whole", 60), ("/d/one", 50)] {
        let block = fixture.write(path, length).block;
        let kept = match path {
            "/d/whole" => 3,
            "/d/one" => 1,
            _ => 0,
        };
        (kept..3).for_each(|number| fixture.notice(number, &block, length, true));
    }
    let open = fixture.create("/d/open");
    let begun = fixture.add_block("/d/open", open, None);
    fixture.add_block("/d/open", open, Some(sized(&begun, MIB)));
    let before = fingerprint(&fixture.state);
    let (report, _) = fixture.check_in_steps("path=/d&delete=1", &user("stranger", &[]));
    assert!(report.ends_with("fsck encountered internal errors!\n\n\nFsck on path '/d' FAILED"), "{report}");
    assert_eq!(fingerprint(&fixture.state), before, "a stranger may look, and remove nothing");
    assert!(!fixture.check("path=/d").contains("internal errors"));
    assert_eq!(fingerprint(&fixture.state), before, "nothing is removed unless that is wanted");
    let report = fixture.check("path=/d&delete=1&files=1&blocks=1&openforwrite=1");
    assert_has(
        &report,
        &["/d/lost 700 bytes", "/d/e/lost 700 bytes", " MISSING 1 blocks", "Status: CORRUPT"],
    );
    let there = ["/d/lost", "/d/e/lost", "/d/whole", "/d/one", "/d/open"].map(|path| fixture.exists(path));
    assert_eq!(there, [false, false, true, true, true]);
    assert_has(&fixture.check("path=/d"), &["is HEALTHY"]);
}

#[test]
fn what_can_be_read_of_a_lost_file_is_copied_before_the_check_goes_on() {
    let mut fixture = Fixture::new(3);
    let file = fixture.create("/d/f");
    let mut before: Option<ExtendedBlock> = None;
    for length in [MIB, MIB, MIB, 5] {
        let block = fixture.add_block("/d/f", file, before.clone()).block;
        (0..3).for_each(|number| fixture.notice(number, &block, length, false));
        before = Some(ExtendedBlock { length: Some(length), ..block });
    }
    assert!(fixture.complete("/d/f", file, before));
    fixture.write("/d/whole", 60);
    let third = fixture.locations("/d/f").blocks[2].block.clone();
    (0..3).for_each(|number| fixture.notice(number, &third, MIB, true));
    let lost = |fixture: &mut Fixture, query: &[(&str, &str)]| {
        let pairs = query.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let mut check = Check::new(CheckRequest::parse(pairs).unwrap(), fixture.user.clone());
        let mut found = Vec::new();
        while fixture.state.check_on(&mut check, fixture.now).is_some() {
            found.extend(check.take_lost());
        }
        found
    };
    let readable = vec![0..MIB, MIB..2 * MIB, 3 * MIB..3 * MIB + 5];
    let expected = [LostFile { path: "/d/f".to_owned(), readable }];
    assert_eq!(lost(&mut fixture, &[("path", "/"), ("move", "1")]), expected);
    assert_eq!(lost(&mut fixture, &[("path", "/")]), []);
    let (report, _) = fixture.check_in_steps("path=/d&move=1", &user("stranger", &[]));
    assert_has(&report, &["Superuser privilege is required", "FAILED"]);
}

#[test]
fn a_group_is_counted_by_its_units() {
    let mut fixture = Fixture::new(9);
    fixture.mkdir("/coded");
    let request = calls::PolicyRequest { src: "/coded".to_owned(), policy: Some("RS-6-3-1024k".to_owned()) };
    let _: calls::Empty = fixture.call("setErasureCodingPolicy", &request).unwrap();
    let file = fixture.create("/coded/f");
    let located = fixture.add_block("/coded/f", file, None);
    // Two cells: units 0 and 1 and three of parity.
    let length = MIB + 5;
    let units = located.indices.clone().unwrap();
    for (number, index) in numbers(&located).into_iter().zip(&units) {
        let unit = ExtendedBlock { id: located.block.id + u64::from(*index), ..located.block.clone() };
        let bytes = match index {
            0 | 6..=8 => MIB,
            1 => 5,
            _ => continue,
        };
        fixture.notice(number, &unit, bytes, false);
    }
    assert!(fixture.complete("/coded/f", file, Some(sized(&located, length))));
    let at = units.iter().position(|unit| *unit == 7).unwrap();
    let (holder, unit) =
        (numbers(&located)[at], ExtendedBlock { id: located.block.id + 7, ..located.block.clone() });
    fixture.notice(holder, &unit, MIB, true);
    let report = fixture.check("path=/coded&files=1&blocks=1&locations=1");
    let id = located.block.id.cast_signed();
    assert_has(
        &report,
        &[
            "/coded/f 1048581 bytes, erasure-coded: policy=RS-6-3-1024k, 1 block(s):  Under replicated BP-1:blk_",
            "Target Replicas is 5 but found 4 live replica(s)",
            &format!("len=1048581 Live_repl=4  [blk_{id}:DatanodeInfoWithStorage[10.0.0."),
            &format!("blk_{}:DatanodeInfoWithStorage[10.0.0.", id + 8),
            " Total block groups (validated):\t1 (avg. block group size 1048581 B)\n",
            " Minimally erasure-coded block groups:\t1 (100.0 %)\n",
            " Under-erasure-coded block groups:\t1 (100.0 %)\n",
            " Missing internal blocks:\t1 (20.0 %)\n",
            "The filesystem under path '/coded' is HEALTHY",
        ],
    );
    let single = fixture.check(&format!("blockId=blk_{}", id + 8));
    assert_has(
        &single,
        &[
            "Block belongs to: /coded/f\nNo. of Expected Replica: 5\nNo. of live Replica: 4\n",
            "Block replica on datanode/rack: host-",
            "/default-rack is HEALTHY\n",
        ],
    );
}

#[test]
fn files_that_are_written_are_counted_apart_and_shown_if_wanted() {
    let mut fixture = Fixture::new(3);
    let file = fixture.create("/open");
    fixture.add_block("/open", file, None);
    let report = fixture.check("path=/");
    assert_has(
        &report,
        &[
            " Total files:\t0 (Files currently being written: 1)\n",
            " Total blocks (validated):\t0 (Total open file blocks (not validated): 1)\n",
        ],
    );
    let shown = fixture.check("path=/&openforwrite=1&files=1&blocks=1&locations=1");
    assert_has(
        &shown,
        &[
            "/open 0 bytes, replicated: replication=3, 1 block(s), OPENFORWRITE:  OK\n",
            "\nUnder Construction Block:\n0. BP-1:blk_",
            " Expected_repl=3  [DatanodeInfoWithStorage[",
        ],
    );
    assert!(shown.ends_with("is HEALTHY"), "{shown}");
}

#[test]
fn a_user_sees_what_they_may_see_and_nothing_that_is_not_there() {
    let mut fixture = Fixture::new(3);
    let made: BoolResponse = fixture.call("mkdirs", &mkdirs("/private/d", 0o700, true)).unwrap();
    assert!(made.result);
    let block = fixture.write("/private/f", 10).block;
    let visitor = user("visitor", &[]);
    let refused = "Permission denied: user=visitor, access=";
    for query in ["path=/", "path=/private/f"] {
        let (report, _) = fixture.check_in_steps(query, &visitor);
        assert_has(&report, &[refused, "FSCK ended at "]);
        assert!(report.ends_with(&format!("Fsck on path '{}' FAILED", &query[5..])), "{report}");
    }
    let (report, _) = fixture.check_in_steps("path=/&listcorruptfileblocks=1", &visitor);
    assert_has(&report, &["Superuser privilege is required", "FAILED"]);
    let (report, _) = fixture.check_in_steps(&format!("blockId=blk_{}", block.id), &visitor);
    assert!(report.contains(refused) && !report.contains("belongs to"), "{report}");
    assert!(fixture.check("path=/none").ends_with("\n\nPath '/none' does not exist"));
    assert!(fixture.check("path=none").ends_with("Fsck on path 'none' FAILED"));
    let report = fixture.check(&format!("blockId=1 blk_x blk_17 blk_{}_{}.meta", block.id, block.stamp));
    assert_has(
        &report,
        &[
            "Incorrect blockId format: 1\nIncorrect blockId format: blk_x\n\nBlock blk_17 does not exist\n",
            "Block belongs to: /private/f\n",
        ],
    );
}

#[test]
fn a_step_looks_at_no_more_than_its_share_and_goes_on_when_what_it_stood_at_is_gone() {
    let mut fixture = Fixture::new(1);
    for number in 0..5_000 {
        fixture.mkdir(&format!("/a/d{number:04}/e"));
    }
    fixture.mkdir("/b");
    let user = fixture.user.clone();
    let (report, steps) = fixture.check_in_steps("path=/", &user);
    assert_has(&report, &[" Total dirs:\t\t\t10003\n"]);
    assert!((10..20).contains(&steps), "{steps} steps for 20,000 moves");
    let pairs = [("path".to_owned(), "/".to_owned())];
    let mut check = Check::new(CheckRequest::parse(pairs.into_iter()).unwrap(), user);
    fixture.state.check_on(&mut check, fixture.now).unwrap();
    let gone: BoolResponse = fixture.call("delete", &delete("/a", true)).unwrap();
    assert!(gone.result);
    let rest: String = std::iter::from_fn(|| fixture.state.check_on(&mut check, fixture.now)).collect();
    assert!(rest.ends_with("The filesystem under path '/' is HEALTHY"), "{rest}");
    let found: u64 = rest.split("Total dirs:\t\t\t").nth(1).unwrap().lines().next().unwrap().parse().unwrap();
    assert!((900..3_000).contains(&found), "{found} directories: those before the deletion, the root and /b");
}
