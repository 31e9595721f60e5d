//! Storage policies.

use super::*;
use crate::wire::proto::attributes::{
    SetStoragePolicyRequest, StoragePoliciesResponse, StoragePolicyResponse,
};

fn set(path: &str, policy: &str) -> SetStoragePolicyRequest {
    SetStoragePolicyRequest { src: path.to_owned(), policy: policy.to_owned() }
}

fn at(path: &str) -> calls::PathRequest {
    calls::PathRequest { src: path.to_owned() }
}

impl Fixture {
    fn set_storage_policy(&mut self, path: &str, policy: &str) {
        let _: calls::Empty = self.call("setStoragePolicy", &set(path, policy)).unwrap();
    }

    /// The name of a path's policy, and the number in its status.
    fn storage_policy(&mut self, path: &str) -> (String, u32) {
        let answer: StoragePolicyResponse = self.call("getStoragePolicy", &at(path)).unwrap();
        (answer.policy.name, self.status(path).unwrap().storage_policy.unwrap())
    }
}

#[test]
fn a_policy_is_that_of_the_nearest_directory_with_one() {
    let mut fixture = Fixture::new(3);
    let all: StoragePoliciesResponse = fixture.call("getStoragePolicies", &calls::Empty {}).unwrap();
    let names: Vec<(u32, &str)> =
        all.policies.iter().map(|policy| (policy.id, policy.name.as_str())).collect();
    let expected = [
        (1, "PROVIDED"),
        (2, "COLD"),
        (5, "WARM"),
        (7, "HOT"),
        (10, "ONE_SSD"),
        (12, "ALL_SSD"),
        (14, "ALL_NVDIMM"),
        (15, "LAZY_PERSIST"),
    ];
    assert_eq!(names, expected);
    fixture.mkdir("/d/sub");
    fixture.write("/d/sub/f", 10);
    assert_eq!(fixture.storage_policy("/d/sub/f"), ("HOT".to_owned(), 0), "nobody has set one");
    fixture.set_storage_policy("/d", "warm");
    fixture.set_storage_policy("/", "ALL_SSD");
    assert_eq!(fixture.storage_policy("/d/sub/f"), ("WARM".to_owned(), 5));
    // A file has none of its own from its creation on, but follows its directory.
    fixture.write("/d/sub/g", 10);
    fixture.set_storage_policy("/d", "ALL_NVDIMM");
    assert_eq!(fixture.storage_policy("/d/sub/g"), ("ALL_NVDIMM".to_owned(), 14));
    fixture.set_storage_policy("/d/sub/f", "ONE_SSD");
    assert_eq!(fixture.storage_policy("/d/sub/f"), ("ONE_SSD".to_owned(), 10));
    for mut again in fixture.started_again(3) {
        assert_eq!(again.storage_policy("/d/sub/f"), ("ONE_SSD".to_owned(), 10));
        let _: calls::Empty = again.call("unsetStoragePolicy", &at("/d/sub/f")).unwrap();
        let _: calls::Empty = again.call("unsetStoragePolicy", &at("/d")).unwrap();
        assert_eq!(again.storage_policy("/d/sub/f"), ("ALL_SSD".to_owned(), 12));
    }
}

#[test]
fn what_cannot_be_set_or_written_is_refused_as_hdfs_does_it() {
    let mut fixture = Fixture::new(3);
    fixture.mkdir("/lazy");
    fixture.mkdir("/cold");
    let unknown = fixture.refused("setStoragePolicy", &set("/lazy", "TEPID"));
    let message = "Cannot find a block policy with the name TEPID".to_owned();
    assert_eq!(unknown, (Exception::HadoopIllegalArgument, message));
    let missing = fixture.refused("getStoragePolicy", &at("/none"));
    assert_eq!(missing, (Exception::FileNotFound, "File/Directory does not exist: /none".to_owned()));
    // A file has this one from its creation, and blocks go to disks for want of memory.
    fixture.set_storage_policy("/lazy", "LAZY_PERSIST");
    fixture.write("/lazy/f", 10);
    let _: BoolResponse = fixture.call("rename", &rename("/lazy/f", "/f", false)).unwrap();
    assert_eq!(fixture.storage_policy("/f"), ("LAZY_PERSIST".to_owned(), 15));
    assert!(
        fixture
            .refused("setStoragePolicy", &set("/f", "HOT"))
            .1
            .contains("cannot be changed after file creation")
    );
    fixture.write("/g", 10);
    let message = fixture.refused("setStoragePolicy", &set("/g", "LAZY_PERSIST")).1;
    let expected = "Policy BlockStoragePolicy{LAZY_PERSIST:15, storageTypes=[RAM_DISK, DISK], creationFallbacks=[DISK], \
                    replicationFallbacks=[DISK]} cannot be set after file creation.";
    assert_eq!(message, expected);
    // There is no archive, and this policy wants nothing else.
    fixture.set_storage_policy("/cold", "COLD");
    let file = fixture.create("/cold/f");
    let message = fixture.refused("addBlock", &add_block("/cold/f", file, None)).1;
    assert!(message.contains("its storage policy COLD allows no disk"), "{message}");
    let named = calls::CreateRequest { storage_policy: Some("WARM".to_owned()), ..create("/cold/g", 1) };
    let _: calls::FileInfoResponse = fixture.call("create", &named).unwrap();
    assert_eq!(fixture.storage_policy("/cold/g"), ("WARM".to_owned(), 5));
    fixture.user = user("alice", &[]);
    assert_eq!(fixture.refused("setStoragePolicy", &set("/g", "WARM")).0, Exception::AccessControl);
    assert_eq!(fixture.refused("satisfyStoragePolicy", &at("/g")).0, Exception::UnsupportedOperation);
}
