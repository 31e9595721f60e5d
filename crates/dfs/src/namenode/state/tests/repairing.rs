//! Repairs that are given to DataNodes, and what goes before them.

use super::*;

#[test]
fn small_blocks_are_mended_many_at_a_time() {
    let mut fixture = Fixture::new(5);
    for number in 0..300 {
        let located = fixture.write(&format!("/f{number}"), 1000);
        fixture.notice(numbers(&located)[0], &located.block, 1000, true);
    }
    let mut given = [0; 4];
    for round in &mut given {
        // Notices may be on their way for a second.
        fixture.now.steady_ms += 1_100;
        fixture.tick();
        for number in 0..5 {
            *round += fixture.heartbeat(number).repairs.len();
        }
    }
    let most = given.into_iter().max();
    assert!(most >= Some(200), "in one round of heartbeats: {given:?}");
}

#[test]
fn of_copies_that_are_all_but_one_rotten_each_is_made_anew_in_its_place() {
    let mut fixture = Fixture::new(3);
    let block = fixture.write("/f", 700).block;
    for number in 0..3 {
        fixture.report(number, true, true, vec![replica(&block, 700, ReplicaState::Finalized)]);
    }
    for number in [0, 1] {
        fixture.rot(number, &block, 700);
    }
    let (mut deleted, mut copied) = (0, 0);
    for _ in 0..60 {
        fixture.now.steady_ms += 500;
        fixture.tick();
        fixture.sync_all();
        let (deleted_before, copied_before) = (deleted, copied);
        for number in 0..3 {
            let orders = fixture.heartbeat(number);
            for _ in &orders.delete {
                assert!(number < 2, "the good one stays");
                deleted += 1;
                fixture.notice(number, &block, 700, true);
            }
            for repair in &orders.repairs {
                assert_eq!((number, repair.targets.len()), (2, 1));
                copied += 1;
                let target: usize = repair.targets[0].uuid[3..].parse().unwrap();
                fixture.notice(target, &block, 700, false);
            }
        }
        assert!(deleted - deleted_before <= 1, "each is made anew before the next one goes");
        assert!(deleted <= copied_before + 1);
    }
    assert_eq!((deleted, copied), (2, 2));
    assert_eq!(numbers(&fixture.locations("/f").blocks[0]).len(), 3);
}

#[test]
fn a_rotten_copy_stays_while_another_datanode_can_take_its_successor() {
    let mut fixture = Fixture::new(4);
    let located = fixture.write("/f", 700);
    let (block, there) = (located.block.clone(), numbers(&located));
    for number in &there {
        fixture.report(*number, true, true, vec![replica(&block, 700, ReplicaState::Finalized)]);
    }
    for number in &there[..2] {
        fixture.rot(*number, &block, 700);
    }
    fixture.now.steady_ms += 500;
    fixture.tick();
    fixture.sync_all();
    for number in 0..4 {
        assert_eq!(fixture.heartbeat(number).delete, [], "only one copy is good");
    }
}

#[test]
fn nothing_goes_of_a_block_whose_copies_are_all_rotten() {
    let mut fixture = Fixture::new(3);
    let block = fixture.write("/f", 700).block;
    for number in 0..3 {
        fixture.report(number, true, true, vec![replica(&block, 700, ReplicaState::Finalized)]);
        fixture.rot(number, &block, 700);
    }
    for _ in 0..20 {
        fixture.now.steady_ms += 500;
        fixture.tick();
        fixture.sync_all();
        for number in 0..3 {
            let orders = fixture.heartbeat(number);
            assert_eq!((orders.delete, orders.repairs), (Vec::new(), Vec::new()), "some of it may be saved");
        }
    }
}
