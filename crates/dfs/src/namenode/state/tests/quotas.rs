//! Quotas on names and on space.

use super::*;
use crate::wire::proto::attributes::SetQuotaRequest;

const LEAVE: u64 = i64::MAX as u64;
const TAKE_AWAY: u64 = u64::MAX;

fn quota(path: &str, names: u64, space: u64) -> SetQuotaRequest {
    SetQuotaRequest { src: path.to_owned(), names, space, storage_type: None }
}

impl Fixture {
    fn set_quota(&mut self, path: &str, names: u64, space: u64) {
        let _: calls::Empty = self.call("setQuota", &quota(path, names, space)).unwrap();
    }

    fn usage(&mut self, path: &str) -> [u64; 4] {
        let request = calls::PathRequest { src: path.to_owned() };
        let usage = self.call::<_, calls::QuotaUsageResponse>("getQuotaUsage", &request).unwrap().usage;
        let summary: calls::ContentSummaryResponse = self.call("getContentSummary", &request).unwrap();
        assert_eq!((summary.summary.quota, summary.summary.space_quota), (usage.quota, usage.space_quota));
        [usage.inodes, usage.quota, usage.space, usage.space_quota]
    }
}

#[test]
fn names_are_refused_beyond_the_quota_of_a_directory_or_of_one_above_it() {
    let mut fixture = Fixture::new(3);
    fixture.mkdir("/q/sub");
    fixture.mkdir("/other/a/b");
    fixture.set_quota("/q", 4, LEAVE);
    assert_eq!(fixture.usage("/q"), [2, 4, 0, TAKE_AWAY]);
    fixture.mkdir("/q/sub/one");
    fixture.write("/q/f", 10);
    let exceeded = |path: &str, quota, count| {
        let text = format!(
            "The NameSpace quota (directories and files) of directory {path} is exceeded: quota={quota} file count={count}"
        );
        (Exception::NsQuotaExceeded, text)
    };
    assert_eq!(fixture.refused("mkdirs", &mkdirs("/q/sub/x/y/z", 0o755, true)), exceeded("/q", 4, 5));
    assert_eq!(fixture.refused("create", &create("/q/sub/g", 1)), exceeded("/q", 4, 5));
    let from_outside = rename("/other/a", "/q/a", false);
    assert_eq!(fixture.refused("rename", &from_outside), exceeded("/q", 4, 6));
    assert_eq!(fixture.refused("rename2", &from_outside), exceeded("/q", 4, 6));
    // Within the directory nothing is added, and what is replaced makes room.
    let _: BoolResponse = fixture.call("rename", &rename("/q/sub/one", "/q/two", false)).unwrap();
    let over: calls::FileInfoResponse = fixture.call("create", &create("/q/f", 3)).unwrap();
    assert!(fixture.complete("/q/f", over.status.unwrap().id.unwrap(), None));
    fixture.write("/other/g", 10);
    let _: calls::Empty = fixture.call("rename2", &rename("/other/g", "/q/f", true)).unwrap();
    // The nearest directory is told of, and a quota below what is there refuses only what is new.
    fixture.set_quota("/q/sub", 1, LEAVE);
    fixture.set_quota("/q", 2, LEAVE);
    assert_eq!(fixture.refused("mkdirs", &mkdirs("/q/sub/x", 0o755, true)), exceeded("/q/sub", 1, 2));
    assert_eq!(fixture.refused("mkdirs", &mkdirs("/q/x", 0o755, true)), exceeded("/q", 2, 5));
    // As in HDFS, where the file is lost by that.
    assert_eq!(fixture.refused("create", &create("/q/f", 3)), exceeded("/q", 2, 4));
    assert_eq!(fixture.status("/q/f").unwrap().length, 10);
    let _: BoolResponse = fixture.call("delete", &delete("/q/two", true)).unwrap();
    fixture.set_quota("/q", TAKE_AWAY, LEAVE);
    fixture.set_quota("/q/sub", TAKE_AWAY, LEAVE);
    fixture.mkdir("/q/sub/x/y/z");
    assert_eq!(fixture.usage("/q")[1], TAKE_AWAY);
    assert_eq!(fixture.usage("/")[1], LEAVE, "the root has a quota that nothing reaches");
    fixture.state.check_counts();
}

#[test]
fn space_is_counted_with_what_blocks_may_take_while_they_are_written() {
    let mut fixture = Fixture::new(3);
    fixture.mkdir("/q");
    fixture.set_quota("/q", LEAVE, 4 * 3 * MIB);
    let file = fixture.create("/q/f");
    let mut last = fixture.add_block("/q/f", file, None);
    for _ in 0..2 {
        numbers(&last).into_iter().for_each(|number| fixture.notice(number, &last.block, MIB, false));
        last = fixture.add_block("/q/f", file, Some(sized(&last, MIB)));
    }
    numbers(&last).into_iter().for_each(|number| fixture.notice(number, &last.block, 100, false));
    // Three blocks, the last of which may get full: one more fits, and not two.
    let other = fixture.create("/q/g");
    let of_other = fixture.add_block("/q/g", other, None);
    let third = fixture.create("/q/h");
    let (exception, message) = fixture.refused("addBlock", &add_block("/q/h", third, None));
    assert_eq!(exception, Exception::DsQuotaExceeded);
    let expected = "The DiskSpace quota of /q is exceeded: quota = 12582912 B = 12 MB but diskspace consumed = 15728640 B \
                    = 15 MB";
    assert_eq!(message, expected);
    fixture.state.check_counts();
    // The end of a block says what it takes.
    assert!(fixture.complete("/q/f", file, Some(sized(&last, 100))));
    let abandon = calls::AbandonBlockRequest {
        block: of_other.block,
        src: "/q/g".to_owned(),
        holder: "client".to_owned(),
        file_id: Some(other),
    };
    let _: calls::Empty = fixture.call("abandonBlock", &abandon).unwrap();
    assert_eq!(fixture.usage("/q")[2], 3 * (2 * MIB + 100));
    let of_third = fixture.add_block("/q/h", third, None);
    numbers(&of_third).into_iter().for_each(|number| fixture.notice(number, &of_third.block, MIB, false));
    assert!(fixture.complete("/q/h", third, Some(sized(&of_third, MIB))));
    // Two MiB and 100 bytes more of each copy do not fit.
    let more = calls::SetReplicationRequest { src: "/q/f".to_owned(), replication: 5 };
    assert_eq!(fixture.refused("setReplication", &more).0, Exception::DsQuotaExceeded);
    let append =
        calls::AppendRequest { src: "/q/f".to_owned(), client_name: "client".to_owned(), flags: None };
    fixture.set_quota("/q", LEAVE, 3 * (3 * MIB + 200));
    assert_eq!(fixture.refused("append", &append).0, Exception::DsQuotaExceeded);
    fixture.write("/out", 200);
    let inside = rename("/out", "/q/out", false);
    assert_eq!(fixture.refused("rename", &inside).0, Exception::DsQuotaExceeded);
    let truncate = calls::TruncateRequest {
        src: "/q/f".to_owned(),
        length: 2 * MIB + 50,
        client_name: "client".to_owned(),
    };
    assert_eq!(fixture.refused("truncate", &truncate).0, Exception::DsQuotaExceeded);
    fixture.set_quota("/q", LEAVE, TAKE_AWAY);
    let _: BoolResponse = fixture.call("rename", &inside).unwrap();
    let _: calls::AppendResponse = fixture.call("append", &append).unwrap();
    fixture.state.check_counts();
}

#[test]
fn quotas_are_the_superuser_s_and_of_directories_and_outlive_a_restart() {
    let mut fixture = Fixture::new(1);
    fixture.mkdir("/q/gone");
    let file = fixture.create("/f");
    assert!(fixture.complete("/f", file, None));
    assert_eq!(fixture.refused("setQuota", &quota("/f", 3, LEAVE)).0, Exception::PathIsNotDirectory);
    let missing = fixture.refused("setQuota", &quota("/none", 3, LEAVE));
    assert_eq!(missing, (Exception::FileNotFound, "Directory does not exist: /none".to_owned()));
    let illegal = (-5_i64).cast_unsigned();
    assert_eq!(fixture.refused("setQuota", &quota("/q", illegal, LEAVE)).0, Exception::HadoopIllegalArgument);
    let of_type = SetQuotaRequest { storage_type: Some(1), ..quota("/q", LEAVE, 5) };
    assert_eq!(fixture.refused("setQuota", &of_type).0, Exception::UnsupportedOperation);
    fixture.set_quota("/q", 7, 1 << 40);
    fixture.set_quota("/q/gone", 3, LEAVE);
    fixture.set_quota("/q", LEAVE, 1 << 41);
    let _: BoolResponse = fixture.call("delete", &delete("/q/gone", true)).unwrap();
    fixture.user = user("alice", &[]);
    assert_eq!(fixture.refused("setQuota", &quota("/q", 3, LEAVE)).0, Exception::AccessControl);
    fixture.user = user("root", &[]);
    for mut again in fixture.started_again(1) {
        assert_eq!(again.usage("/q"), [1, 7, 0, 1 << 41]);
        assert_eq!(again.state.tree.attached.all_quotas().count(), 1);
        assert_eq!(again.state.tree.attached.bytes(), fixture.state.tree.attached.bytes());
    }
}

#[test]
fn files_that_are_joined_count_with_the_copies_of_the_first_one() {
    let mut fixture = Fixture::new(3);
    fixture.mkdir("/q");
    fixture.write("/q/a", 100);
    fixture.write("/q/b", 1000);
    let fewer = calls::SetReplicationRequest { src: "/q/b".to_owned(), replication: 1 };
    let _: BoolResponse = fixture.call("setReplication", &fewer).unwrap();
    assert_eq!(fixture.usage("/q")[2], 1300);
    fixture.set_quota("/q", LEAVE, 3299);
    let concat = calls::ConcatRequest { target: "/q/a".to_owned(), sources: vec!["/q/b".to_owned()] };
    assert_eq!(fixture.refused("concat", &concat).0, Exception::DsQuotaExceeded);
    fixture.set_quota("/q", LEAVE, 3300);
    let _: calls::Empty = fixture.call("concat", &concat).unwrap();
    assert_eq!(fixture.usage("/q")[2], 3300);
    fixture.state.check_counts();
}
