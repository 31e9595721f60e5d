//! Goal: a process of which a part has died ends, with a message and code 1, and one of which none has died goes on. Method:
//! each scene runs in a process of its own, which is this program once more.

#![allow(clippy::unwrap_used)] // what helps a test fails it

use std::future::pending;
use std::sync::Arc;

use yeoul_net::supervise::{DecisionLock, Supervisor, must_not_panic, outcome};
use yeoul_simulation::{Child, Ended};

/// Names the scene that this process is to play.
const SCENE: &str = "YEOUL_SCENE";

/// What a process that comes to the end of its scene exits with: no other way to end does.
const LIVES: i32 = 42;

/// Plays a scene in another process.
fn play(scene: &str) -> Ended {
    Child::run(Child::command("scene").env(SCENE, scene)).unwrap()
}

fn dies(scene: &str, text: &str) {
    let played = play(scene);
    let said = &played.stderr;
    assert_eq!(played.status.code(), Some(1), "{scene}: {said}");
    assert!(said.contains(&format!("error: {text}\nhint: ")), "{scene}: {said}");
}

fn lives(scene: &str) {
    let played = play(scene);
    let said = &played.stderr;
    assert_eq!(played.status.code(), Some(LIVES), "{scene}: {said}");
    assert!(!said.contains("error: "), "{scene}: {said}");
}

#[test]
fn a_task_that_must_live_and_dies_takes_the_process_with_it() {
    dies("panic", "the server's ticker panicked: on purpose");
    dies("formatted panic", "the server's ticker panicked: on purpose, 7 times");
    dies("panic of a child", "the server's ticker panicked: on purpose");
    dies("return", "the server's ticker ended, which it must not");
    dies("failure", "the server's journal has failed: the disk is gone");
    dies("work", "the server's writer panicked: on purpose");
    lives("done");
    lives("abort");
}

#[test]
fn a_panic_under_a_decision_lock_takes_the_process_with_it() {
    dies("decision", "the state was left half changed by a panic in a decision");
    lives("panic elsewhere");
    lives("destructor");
}

/// Not a test of its own: what the other processes do. Each scene is over when the process ends, which one that hangs
/// never does: the harness of the tests notices that.
#[test]
fn scene() {
    let Ok(scene) = std::env::var(SCENE) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut supervisor = Supervisor::new("server");
        let lock = Arc::new(DecisionLock::new("the state", 0));
        match scene.as_str() {
            "panic" => supervisor.keep("ticker", async { panic!("on purpose") }),
            "formatted panic" => {
                supervisor.keep("ticker", async { panic!("on purpose, {} times", lives_of(7)) })
            }
            "panic of a child" => supervisor.keep("ticker", async {
                let child: Option<()> = outcome(tokio::spawn(async { panic!("on purpose") }).await);
                unreachable!("{child:?}");
            }),
            "return" => supervisor.keep("ticker", async {}),
            "failure" => supervisor.watch("journal", async { "the disk is gone" }),
            "work" => {
                std::thread::spawn(|| must_not_panic("server", "writer", || panic!("on purpose")));
            }
            "decision" => {
                let _ = tokio::spawn(async move {
                    *lock.lock() += 1;
                    panic_under(&lock);
                })
                .await;
            }
            "done" => {
                let (done, is_done) = tokio::sync::oneshot::channel();
                supervisor.run("recovery", async move { done.send(()).unwrap() });
                is_done.await.unwrap();
                tokio::task::yield_now().await;
                let aborted = tokio::spawn(pending::<()>());
                aborted.abort();
                assert_eq!(outcome(aborted.await), None);
                std::process::exit(LIVES);
            }
            "abort" => {
                let (dropped, is_dropped) = tokio::sync::oneshot::channel::<()>();
                supervisor.keep("ticker", async move {
                    let _dropped = dropped;
                    pending().await
                });
                drop(supervisor);
                assert!(is_dropped.await.is_err(), "its future is dropped");
                // Whoever watches it has heard of its end by now.
                for _ in 0..100 {
                    tokio::task::yield_now().await;
                }
                std::process::exit(LIVES);
            }
            "panic elsewhere" => {
                let other = Arc::clone(&lock);
                let ended = tokio::spawn(async move {
                    *other.lock() += 1;
                    panic!("after the decision");
                });
                assert!(ended.await.unwrap_err().is_panic());
                assert_eq!(*lock.lock(), 1);
                std::process::exit(LIVES);
            }
            "destructor" => {
                let ended = tokio::spawn(async move {
                    let _counts = Counts(Arc::clone(&lock));
                    panic!("it locks when it is dropped");
                });
                assert!(ended.await.unwrap_err().is_panic());
                std::process::exit(LIVES);
            }
            other => unreachable!("no scene {other}"),
        }
        pending::<()>().await;
    });
}

fn lives_of(cats: u32) -> u32 {
    cats
}

fn panic_under(lock: &DecisionLock<i32>) {
    let mut state = lock.lock();
    *state += 1;
    panic!("half way");
}

struct Counts(Arc<DecisionLock<i32>>);

impl Drop for Counts {
    fn drop(&mut self) {
        *self.0.lock() += 1;
    }
}
