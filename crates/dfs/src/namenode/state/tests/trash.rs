//! Goal: what users threw away is kept for a while, and then goes. Method: as in the file above.

use super::*;

const MINUTE_MS: u64 = 60_000;

impl Fixture {
    /// A NameNode whose trash is kept for an hour, with a checkpoint every ten minutes, at the beginning of an hour.
    fn with_trash() -> Self {
        let mut fixture = Self::new(3);
        let rules = &mut fixture.state.rules;
        (rules.trash_minutes, rules.trash_checkpoint_minutes) = (60, 10);
        fixture.now.wall_ms = 500_000 * 60 * MINUTE_MS;
        fixture.tick();
        fixture
    }

    /// Minutes pass, with a look at the clock each half.
    fn pass_minutes(&mut self, minutes: u64) {
        for _ in 0..2 * minutes {
            self.now.wall_ms += MINUTE_MS / 2;
            self.now.steady_ms += MINUTE_MS / 2;
            for number in 0..3 {
                self.heartbeat(number);
            }
            self.tick();
        }
    }

    fn names_in(&mut self, src: &str) -> Vec<String> {
        let request = calls::ListingRequest { src: src.to_owned(), ..calls::ListingRequest::default() };
        let answer: calls::ListingResponse = self.call("getListing", &request).unwrap();
        let entries = answer.listing.map(|listing| listing.entries).unwrap_or_default();
        entries.iter().map(|entry| String::from_utf8(entry.path.to_vec()).unwrap()).collect()
    }
}

#[test]
fn what_is_thrown_away_becomes_a_checkpoint_and_goes_when_it_is_old() {
    let mut fixture = Fixture::with_trash();
    let defaults: calls::ServerDefaultsResponse =
        fixture.call("getServerDefaults", &calls::Empty {}).unwrap();
    assert_eq!(defaults.defaults.trash_interval_minutes, Some(60), "clients move files there");
    fixture.write("/user/ann/.Trash/Current/user/ann/f", 700);
    fixture.write("/user/bob/kept", 700);
    fixture.pass_minutes(9);
    assert_eq!(fixture.names_in("/user/ann/.Trash"), ["Current"], "it is not time yet");
    fixture.pass_minutes(1);
    let [first] = &fixture.names_in("/user/ann/.Trash")[..] else { panic!("one checkpoint") };
    let first = first.clone();
    assert_eq!(first, "270115081000");
    assert!(fixture.exists(&format!("/user/ann/.Trash/{first}/user/ann/f")));
    fixture.write("/user/ann/.Trash/Current/g", 700);
    fixture.mkdir("/user/ann/.Trash/notes");
    fixture.pass_minutes(60);
    assert_eq!(
        fixture.names_in("/user/ann/.Trash"),
        [first.as_str(), "270115082000", "notes"],
        "an hour, not more"
    );
    fixture.pass_minutes(10);
    assert_eq!(fixture.names_in("/user/ann/.Trash"), ["270115082000", "notes"]);
    fixture.pass_minutes(10);
    assert_eq!(fixture.names_in("/user/ann/.Trash"), ["notes"]);
    assert!(fixture.exists("/user/bob/kept"));
}

#[test]
fn the_trash_of_many_users_is_looked_at_and_it_is_as_it_was_after_a_restart() {
    let mut fixture = Fixture::with_trash();
    for user in 0..55 {
        fixture.mkdir(&format!("/user/u{user:02}/.Trash/Current/d"));
        fixture.mkdir(&format!("/user/v{user:02}/work"));
    }
    fixture.pass_minutes(12);
    for user in 0..55 {
        let [name] = &fixture.names_in(&format!("/user/u{user:02}/.Trash"))[..] else { panic!("{user}") };
        assert!(name.starts_with("27011508"), "{name}");
    }
    // A restart replays what was done.
    fixture.started_again(3);
}

#[test]
fn nothing_is_emptied_in_safe_mode_nor_without_the_setting_and_a_clock_that_jumps_waits() {
    let mut fixture = Fixture::with_trash();
    fixture.mkdir("/user/ann/.Trash/Current");
    let enter = calls::SafeModeRequest { action: 2, checked: None };
    let _: BoolResponse = fixture.call("setSafeMode", &enter).unwrap();
    fixture.pass_minutes(20);
    assert_eq!(fixture.names_in("/user/ann/.Trash"), ["Current"]);
    let leave = calls::SafeModeRequest { action: 1, checked: None };
    let _: BoolResponse = fixture.call("setSafeMode", &leave).unwrap();
    fixture.pass_minutes(1);
    assert_ne!(fixture.names_in("/user/ann/.Trash"), ["Current"]);
    fixture.mkdir("/user/ann/.Trash/Current");
    fixture.now.wall_ms -= 24 * 60 * MINUTE_MS;
    fixture.pass_minutes(12);
    assert!(
        !fixture.names_in("/user/ann/.Trash").contains(&"Current".to_owned()),
        "it goes on by the new time"
    );
    let mut without = Fixture::new(3);
    without.mkdir("/user/ann/.Trash/Current");
    without.pass_minutes(200);
    assert_eq!(without.names_in("/user/ann/.Trash"), ["Current"]);
}
