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
