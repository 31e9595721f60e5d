//! Shuffles that are opened by their names.

use super::*;

const REGISTER: Point = Point::Message(MessageType::REQUEST_SLOTS);
const RESERVE: Point = Point::Message(MessageType::RESERVE_SLOTS);
const UNREGISTER: Point = Point::Message(MessageType::UNREGISTER_SHUFFLE);

async fn start(cluster: &Scripted) -> Application {
    Application::start(Options { heartbeat: NEVER, ..cluster.options() }).await.unwrap()
}

fn number(shuffle: &Shuffle) -> i32 {
    shuffle.registered.key.shuffle.0
}

#[tokio::test]
async fn those_who_open_a_name_at_once_get_one_shuffle_even_if_the_first_gives_up() {
    let cluster = Scripted::start(1).await;
    let application = start(&cluster).await;
    cluster.fail(0, REGISTER, &[Fault::Late(&Fault::Fail), Fault::Hang]);
    // The master refuses once: all who wait hear of it, and the name is free for any number of partitions.
    let failing: Vec<_> = (0..4)
        .map(|_| {
            let application = application.clone();
            tokio::spawn(async move { application.open("a", 2).await.map(drop) })
        })
        .collect();
    until(|| cluster.faults_left() == 1).await;
    cluster.release();
    for opened in failing {
        assert_eq!(opened.await.unwrap().unwrap_err().kind(), Kind::Conflict);
    }
    assert_eq!(cluster.asked(0, REGISTER), 1);
    cancel_when(application.open("a", 1), || cluster.faults_left() == 0).await;
    assert_eq!(application.open("a", 2).await.err().unwrap().kind(), Kind::Conflict, "1 is asked for");
    let opening = application.open("a", 1);
    let both = async {
        cancel(application.open("a", 1)).await;
        cluster.release();
    };
    let (opened, ()) = tokio::join!(opening, both);
    assert_eq!(number(&opened.unwrap()), number(&application.open("a", 1).await.unwrap()));
    assert_eq!(cluster.asked(0, REGISTER), 2);
}

#[tokio::test]
async fn numbers_are_drawn_that_no_shuffle_has_had() {
    let cluster = Scripted::start(1).await;
    let application = start(&cluster).await;
    let [used, _held] = [
        application.register(ShuffleId(0), 1, 1).await.unwrap(),
        application.register(ShuffleId(2), 1, 1).await.unwrap(),
    ];
    used.unregister().await.unwrap();
    assert_eq!(number(&application.open("a", 1).await.unwrap()), 1);
    application.retain(|_| false).await;
    assert_eq!(number(&application.open("a", 1).await.unwrap()), 3);
    for drawn in [1, 3] {
        let error = application.register(ShuffleId(drawn), 1, 1).await.err().unwrap();
        assert_eq!(error.kind(), Kind::Conflict, "{error}");
    }
}

#[tokio::test]
async fn what_was_given_up_and_not_unregistered_is_tried_again() {
    let cluster = Scripted::start(1).await;
    let application = start(&cluster).await;
    let first = application.open("a", 1).await.unwrap();
    cluster.fail(0, UNREGISTER, &[Fault::Fail]);
    application.retain(|_| false).await;
    assert_eq!((cluster.asked(0, UNREGISTER), cluster.faults_left()), (1, 0));
    assert_eq!(first.commit().await.unwrap_err().kind(), Kind::Conflict, "it is given up all the same");
    let second = application.open("a", 1).await.unwrap();
    assert_ne!(number(&second), number(&first));
    for _ in 0..2 {
        application.retain(|_| true).await;
        assert_eq!(cluster.asked(0, UNREGISTER), 2, "once more, and not again");
    }
    second.commit().await.unwrap();
}

#[tokio::test]
async fn a_call_that_is_cancelled_forgets_nothing_that_was_given_up() {
    let cluster = Scripted::start(1).await;
    let application = start(&cluster).await;
    let shuffles = [application.open("a", 1).await.unwrap(), application.open("b", 1).await.unwrap()];
    cluster.fail(0, UNREGISTER, &[Fault::Hang; 2]);
    cancel_when(application.retain(|_| false), || cluster.faults_left() == 0).await;
    for shuffle in &shuffles {
        assert_eq!(shuffle.commit().await.unwrap_err().kind(), Kind::Conflict);
    }
    application.retain(|_| true).await;
    assert_eq!(cluster.asked(0, UNREGISTER), 4);
    application.retain(|_| true).await;
    assert_eq!(cluster.asked(0, UNREGISTER), 4);
}

#[tokio::test]
async fn many_that_are_given_up_end_at_once_and_the_master_is_told_of_some_at_a_time() {
    let cluster = Scripted::start(1).await;
    let application = start(&cluster).await;
    let mut shuffles = Vec::new();
    for name in 0..40 {
        shuffles.push(application.open(&name.to_string(), 1).await.unwrap());
    }
    cluster.fail(0, UNREGISTER, &[Fault::Hang; 16]);
    let giving_up = tokio::spawn({
        let application = application.clone();
        async move { application.retain(|name| name == "7").await }
    });
    until(|| cluster.faults_left() == 0).await;
    cancel(std::future::pending::<()>()).await;
    assert_eq!(cluster.asked(0, UNREGISTER), 16);
    for (name, shuffle) in shuffles.iter().enumerate() {
        let ended = shuffle.commit().await.err().map(|error| error.kind());
        assert_eq!(ended, (name != 7).then_some(Kind::Conflict), "{name}");
    }
    cluster.release();
    giving_up.await.unwrap();
    assert_eq!(cluster.asked(0, UNREGISTER), 39);
}

#[tokio::test]
async fn a_name_that_is_given_up_while_it_is_registered_leaves_nothing() {
    let cluster = Scripted::start(1).await;
    let application = start(&cluster).await;
    cluster.fail(0, RESERVE, &[Fault::Hang]);
    let opening = tokio::spawn({
        let application = application.clone();
        async move { application.open("a", 1).await.map(drop) }
    });
    until(|| cluster.faults_left() == 0).await;
    application.retain(|_| false).await;
    let again = application.open("a", 2).await.unwrap();
    cluster.release();
    assert_eq!(opening.await.unwrap().unwrap_err().kind(), Kind::Conflict);
    until(|| cluster.asked(0, UNREGISTER) == 1).await;
    assert_eq!(number(&application.open("a", 2).await.unwrap()), number(&again));
}

#[tokio::test]
async fn a_shuffle_that_was_unregistered_has_its_name_no_more() {
    let cluster = Scripted::start(1).await;
    let application = start(&cluster).await;
    let first = application.open("a", 1).await.unwrap();
    first.clone().unregister().await.unwrap();
    let second = application.open("a", 2).await.unwrap();
    assert_ne!(number(&second), number(&first));
    write_one(&second).await;
    assert_eq!(read(&second, 0).await.unwrap(), ["one"]);
}

#[tokio::test]
async fn an_application_that_nobody_has_ends_with_its_named_shuffles() {
    let cluster = Scripted::start(1).await;
    let heartbeat = Duration::from_millis(5);
    let application = Application::start(Options { heartbeat, ..cluster.options() }).await.unwrap();
    let tasks = application.open("a", 1).await.unwrap().tasks();
    drop(application);
    let beats = || cluster.asked(0, Point::Message(MessageType::HEARTBEAT_FROM_APPLICATION));
    let before = beats();
    until(|| beats() > before + 3).await;
    drop(tasks);
    let before = beats();
    tokio::time::sleep(heartbeat * 20).await;
    assert!(beats() <= before + 1, "one was on its way");
}
