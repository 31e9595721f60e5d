//! Goal: operators add erasure coding policies of their own, as in HDFS, and files that have one keep it. Method: as in the
//! file above.

use super::super::policies::POLICIES_ADDED_MAX;
use super::striped::{coded, unit};
use super::*;
use crate::policy::geometry_of;
use crate::wire::proto::shared::{ErasureCodingPolicy, LocatedBlocks, erasure_coding_policy};

const RS_3_1: &str = "RS-3-1-64k";

fn wanted(codec: &str, data_units: u32, parity_units: u32, cell_size: u32) -> ErasureCodingPolicy {
    let codec = codec.to_owned();
    let schema = erasure_coding_policy::Schema { codec, data_units, parity_units, options: Vec::new() };
    // Clients send a name that means nothing, and the number 0.
    let name = Some("user".to_owned());
    ErasureCodingPolicy { name, schema: Some(schema), cell_size: Some(cell_size), id: 0, state: None }
}

fn named(name: &str) -> calls::PolicyNameRequest {
    calls::PolicyNameRequest { name: name.to_owned() }
}

impl Fixture {
    /// What is said of each policy that is to be added: its number and its name, or why it is not.
    fn add_policies(&mut self, policies: Vec<ErasureCodingPolicy>) -> Vec<Result<(u32, String), String>> {
        let request = calls::AddPoliciesRequest { policies };
        let answer: calls::AddPoliciesResponse = self.call("addErasureCodingPolicies", &request).unwrap();
        let said = |added: calls::AddedPolicy| match (added.succeed, added.error) {
            (true, None) => Ok((added.policy.id, added.policy.name.unwrap())),
            (false, Some(error)) => Err(error),
            other => panic!("a policy is added, or it is said why not: {other:?}"),
        };
        answer.responses.into_iter().map(said).collect()
    }

    /// The state of each policy that is not disabled, 2 for enabled and 3 for removed.
    fn policy_states(&mut self) -> Vec<(String, i32)> {
        let answer: calls::PoliciesResponse =
            self.call("getErasureCodingPolicies", &calls::Empty {}).unwrap();
        let all = answer.policies.into_iter().map(|policy| (policy.name.clone().unwrap(), policy.state()));
        all.filter(|(_, state)| *state != 1).collect()
    }

    /// Enables a policy and writes a file of one group with it, of which each unit is on a node of its own.
    fn write_with(&mut self, path: &str, policy: &str, length: u64) -> LocatedBlock {
        let _: calls::Empty = self.call("enableErasureCodingPolicy", &named(policy)).unwrap();
        let answer: calls::FileInfoResponse = self.call("create", &coded(path, policy)).unwrap();
        let file = answer.status.unwrap().id.unwrap();
        let located = self.add_block(path, file, None);
        let geometry = geometry_of(policy).unwrap();
        for (index, node) in (0..).zip(numbers(&located)) {
            let bytes = geometry.unit_len(length, yeoul_erasure::UnitIndex(index));
            self.notice(node, &unit(&located, index), bytes, false);
        }
        assert!(self.complete(path, file, Some(sized(&located, length))));
        located
    }
}

fn policy_of(located: &LocatedBlocks) -> (u32, &str, u32) {
    let policy = located.policy.as_ref().unwrap();
    (policy.id, policy.name(), policy.cell_size())
}

#[test]
fn each_policy_is_added_or_refused_for_itself() {
    let mut fixture = Fixture::new(0);
    let said = fixture.add_policies(vec![
        wanted("xor", 2, 1, 131_072),
        wanted("rs", 12, 4, 131_072),
        wanted("RS-LEGACY", 12, 4, 1_024),
        wanted("RS", 6, 3, 1_048_576),
        wanted("rs", 12, 4, 131_072),
        wanted("lrc", 6, 3, 65_536),
        wanted("rs", 13, 4, 65_536),
        wanted("rs", 6, 0, 65_536),
        wanted("xor", 2, 2, 65_536),
        wanted("rs", 6, 3, 65_537),
        wanted("rs", 6, 3, 0),
        wanted("rs", 6, 3, (4 << 20) + 1_024),
        wanted("rs", 6, 3, 4 << 20),
    ]);
    let added = |id, name: &str| Ok((id, name.to_owned()));
    let expected = [
        added(64, "XOR-2-1-128k"),
        added(65, "RS-12-4-128k"),
        added(66, "RS-LEGACY-12-4-1k"),
        Err("The policy name RS-6-3-1024k already exists".to_owned()),
        Err("The policy name RS-12-4-128k already exists".to_owned()),
        Err("Codec name lrc is not supported".to_owned()),
    ];
    assert_eq!(said[..6], expected);
    let refused = ["13", "0 parity", "2 parity", "65537", "Cell size 0", "should not exceed maximum 4194304"];
    for (said, part) in said[6..].iter().zip(refused) {
        assert!(said.as_ref().is_err_and(|error| error.contains(part)), "{said:?} has {part}");
    }
    assert_eq!(said[12], added(67, "RS-6-3-4096k"));
    let options = vec![erasure_coding_policy::Option { key: "l".to_owned(), value: "2".to_owned() }];
    let mut with_option = wanted("rs", 4, 2, 65_536);
    with_option.schema.as_mut().unwrap().options = options;
    assert_eq!(
        fixture.add_policies(vec![with_option]),
        [Err("Option l of codec rs is not supported".to_owned())]
    );
    // An empty element of the client's file says nothing.
    let empty = erasure_coding_policy::Option { key: "options".to_owned(), value: " ".to_owned() };
    let mut with_empty_option = wanted("rs", 4, 2, 65_536);
    with_empty_option.schema.as_mut().unwrap().options = vec![empty];
    assert_eq!(fixture.add_policies(vec![with_empty_option]), [added(68, "RS-4-2-64k")]);
    // What is added is disabled.
    assert_eq!(fixture.policy_states(), [("RS-6-3-1024k".to_owned(), 2)]);
    assert_eq!(fixture.refused("create", &coded("/f", "RS-12-4-128k")).0, Exception::HadoopIllegalArgument);
    let many = vec![wanted("rs", 4, 2, 65_536); POLICIES_ADDED_MAX + 1];
    let many = calls::AddPoliciesRequest { policies: many };
    let (exception, message) = fixture.refused("addErasureCodingPolicies", &many);
    assert!(exception == Exception::HadoopIllegalArgument && message.contains("at most 64"), "{message}");
}

#[test]
fn there_are_sixty_four_policies_of_users_and_operators_may_forbid_them() {
    let mut fixture = Fixture::new(0);
    let some = (1..=64).map(|kib| wanted("rs", 5, 2, kib << 10)).collect();
    assert!(fixture.add_policies(some).iter().all(Result::is_ok));
    let said = fixture.add_policies(vec![wanted("rs", 5, 2, 65 << 10)]);
    assert!(said[0].as_ref().is_err_and(|error| error.contains("the threshold, which is 127")), "{said:?}");
    let mut forbidding = Fixture::of(State::new(Rules { may_add_policies: false, ..rules() }));
    forbidding.state.safe_mode.leave();
    let said = forbidding.add_policies(vec![wanted("rs", 5, 2, 1_024)]);
    assert_eq!(said, [Err("Addition of user defined erasure coding policy is disabled.".to_owned())]);
}

#[test]
fn files_keep_a_removed_policy_over_a_restart_and_what_they_lose_is_ordered_by_its_name() {
    let mut fixture = Fixture::new(5);
    assert_eq!(fixture.add_policies(vec![wanted("rs", 3, 1, 65_536)]), [Ok((64, RS_3_1.to_owned()))]);
    // Seven cells: all units hold something.
    let length = 7 << 16;
    let located = fixture.write_with("/f", RS_3_1, length);
    assert_eq!(located.indices.as_deref(), Some(&[0, 1, 2, 3][..]));
    let status = fixture.status("/f").unwrap().policy.unwrap();
    assert_eq!((status.id, status.name(), status.cell_size()), (64, RS_3_1, 65_536));
    let summary = calls::PathRequest { src: "/f".to_owned() };
    let summary: calls::ContentSummaryResponse = fixture.call("getContentSummary", &summary).unwrap();
    assert_eq!((summary.summary.space_consumed, summary.summary.policy()), (length + (3 << 16), RS_3_1));

    let _: calls::Empty = fixture.call("removeErasureCodingPolicy", &named(RS_3_1)).unwrap();
    let _: calls::Empty = fixture.call("removeErasureCodingPolicy", &named(RS_3_1)).unwrap();
    let _: calls::Empty = fixture.call("disableErasureCodingPolicy", &named(RS_3_1)).unwrap();
    let states = [("RS-6-3-1024k".to_owned(), 2), (RS_3_1.to_owned(), 3)];
    assert_eq!(fixture.policy_states(), states);
    assert_eq!(fixture.refused("create", &coded("/g", RS_3_1)).0, Exception::HadoopIllegalArgument);
    for mut restarted in fixture.started_again(5) {
        assert_eq!(restarted.policy_states(), states);
        for (index, node) in (0..).zip(numbers(&located)) {
            let bytes = geometry_of(RS_3_1).unwrap().unit_len(length, yeoul_erasure::UnitIndex(index));
            let there = replica(&unit(&located, index), bytes, ReplicaState::Finalized);
            restarted.report(node, true, true, vec![there]);
        }
        let found = restarted.locations("/f");
        assert_eq!((found.file_length, policy_of(&found)), (length, (64, RS_3_1, 65_536)));
        assert_eq!(found.blocks[0].locations.len(), 4);
        // A DataNode goes, and another one is told by which policy its unit is to be made.
        let alive: Vec<usize> = (0..5).filter(|node| *node != numbers(&located)[1]).collect();
        let told = restarted.pass(60_000, &alive);
        let repair = told.iter().flat_map(|(_, response)| &response.repairs).next().expect("one is ordered");
        assert_eq!((repair.policy.as_str(), repair.targets[0].index), (RS_3_1, 1));
    }
    // It has its number for ever, and can be enabled again.
    assert_eq!(
        fixture.add_policies(vec![wanted("rs", 3, 1, 65_536), wanted("rs", 4, 1, 65_536)]),
        [Err(format!("The policy name {RS_3_1} already exists")), Ok((65, "RS-4-1-64k".to_owned()))]
    );
    fixture.write_with("/g", RS_3_1, length);
}

#[test]
fn policies_are_changed_by_the_superuser_only_and_once_for_a_call() {
    let mut fixture = Fixture::new(0);
    let request = calls::AddPoliciesRequest { policies: vec![wanted("rs", 3, 1, 65_536)] };
    let first: calls::AddPoliciesResponse =
        fixture.call_as(900, "addErasureCodingPolicies", &request).unwrap();
    let again: calls::AddPoliciesResponse =
        fixture.call_as(900, "addErasureCodingPolicies", &request).unwrap();
    assert_eq!(again, first);
    assert!(again.responses[0].succeed, "the client that asks again gets the first answer");
    let (exception, message) = fixture.refused("removeErasureCodingPolicy", &named("RS-3-2-1024k"));
    assert_eq!(exception, Exception::HadoopIllegalArgument);
    assert_eq!(message, "System erasure coding policy RS-3-2-1024k cannot be removed");
    let (_, message) = fixture.refused("removeErasureCodingPolicy", &named("RS-9-2-64k"));
    assert_eq!(message, "The policy name RS-9-2-64k does not exist");
    fixture.user = user("alice", &[]);
    assert_eq!(fixture.refused("addErasureCodingPolicies", &request).0, Exception::AccessControl);
    assert_eq!(fixture.refused("removeErasureCodingPolicy", &named(RS_3_1)).0, Exception::AccessControl);
}
