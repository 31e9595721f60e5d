//! Goal: who occupies a server's connections without using them keeps nobody else out. Method: bare sockets that are silent, slow
//! or stop in the middle of a frame, from two loopback addresses, beside a client of ours.

use tokio::net::TcpSocket;

use super::*;
use crate::gate::Account;

/// Connections of a server in these tests.
const CONNECTIONS_MAX: usize = 40;

async fn server_with(change: impl FnOnce(&mut FrameOptions<Limits>)) -> (Serving, String) {
    let listener = Listener::bind("127.0.0.1:0").await.unwrap();
    let mut options =
        FrameOptions { connections_max: CONNECTIONS_MAX, ..FrameOptions::new(Letters::answer_limits()) };
    change(&mut options);
    let serving = serve_frames::<Letters>(listener, options, Arc::new(Reader::default()));
    let address = serving.address().to_string();
    (serving, address)
}

/// A connection from the loopback address with this last number.
async fn connect_from(last: u8, address: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, last], 0).into()).unwrap();
    socket.connect(address.parse().unwrap()).await.unwrap()
}

/// Whether a bare socket's request is answered within a second.
async fn is_served(socket: &mut TcpStream) -> bool {
    let mut frame = BytesMut::new();
    put(&mut frame, &Header::Request { id: 1 }, b"eabc");
    let asked = async {
        socket.write_all(&frame).await?;
        socket.read_exact(&mut [0; 20]).await
    };
    matches!(tokio::time::timeout(Duration::from_secs(1), asked).await, Ok(Ok(_)))
}

/// Returns when the server closes a connection.
async fn closed(socket: &mut TcpStream) {
    let end = tokio::time::timeout(WITHIN, socket.read(&mut [0; 10])).await.expect("it is closed");
    assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
}

#[tokio::test]
async fn whoever_comes_with_a_frame_is_served_while_its_own_address_takes_all_places() {
    for occupant in [&b""[..], &[0; 5]] {
        let (serving, address) = server_with(|_| ()).await;
        let mut worker = TcpStream::connect(&address).await.unwrap();
        assert!(is_served(&mut worker).await);
        let mut flood = Vec::new();
        for _ in 0..3 * CONNECTIONS_MAX {
            let mut socket = TcpStream::connect(&address).await.unwrap();
            let _ = socket.write_all(occupant).await;
            flood.push(socket);
        }
        let mut newcomer = TcpStream::connect(&address).await.unwrap();
        assert!(is_served(&mut newcomer).await, "{occupant:?}");
        assert!(is_served(&mut worker).await, "who works keeps its place");
        if occupant.is_empty() {
            continue; // they have no places of those that send frames
        }
        assert_eq!(serving.connections().get(), CONNECTIONS_MAX / 4 * 3);
        closed(&mut flood[0]).await;
    }
}

#[tokio::test]
async fn one_address_leaves_room_for_others_whatever_it_does() {
    let (serving, address) = server_with(|_| ()).await;
    let mut hog = Vec::new();
    for _ in 0..CONNECTIONS_MAX / 4 * 3 {
        let mut socket = connect_from(1, &address).await;
        assert!(is_served(&mut socket).await);
        hog.push(socket);
    }
    let mut beyond = connect_from(1, &address).await;
    assert!(!is_served(&mut beyond).await);
    for _ in 0..CONNECTIONS_MAX / 4 {
        let mut socket = connect_from(2, &address).await;
        assert!(is_served(&mut socket).await);
        hog.push(socket);
    }
    assert_eq!(serving.connections().get(), CONNECTIONS_MAX);
}

#[tokio::test]
async fn a_connection_without_a_first_frame_ends_and_one_with_an_answer_to_come_does_not() {
    let short = Duration::from_millis(100);
    let (_serving, address) =
        server_with(|options| (options.first_max, options.silent_max) = (short, short)).await;
    closed(&mut TcpStream::connect(&address).await.unwrap()).await;
    // An answer that is held for much longer than a connection may be silent.
    let mut waiting = TcpStream::connect(&address).await.unwrap();
    let mut frame = BytesMut::new();
    put(&mut frame, &Header::Request { id: 1 }, b"h");
    waiting.write_all(&frame).await.unwrap();
    let ended = tokio::time::timeout(5 * short, waiting.read(&mut [0; 10])).await;
    assert!(ended.is_err(), "the answer is still to come: {ended:?}");
    let mut served = TcpStream::connect(&address).await.unwrap();
    assert!(is_served(&mut served).await);
    closed(&mut served).await;
}

#[tokio::test]
async fn frames_that_drip_end_although_each_byte_comes_in_time() {
    let idle_max = Duration::from_millis(200);
    let (_serving, address) = server_with(|options| options.idle_max = idle_max).await;
    let mut frame = BytesMut::new();
    put(&mut frame, &Header::Request { id: 1 }, &varied(b'e', 1000));
    // A head that drips, and a body that does.
    for at_once in [1, 40] {
        let mut socket = TcpStream::connect(&address).await.unwrap();
        socket.write_all(&frame[..at_once]).await.unwrap();
        let begun = Instant::now();
        let dripped = async {
            for byte in &frame[at_once..] {
                tokio::time::sleep(idle_max / 2).await;
                socket.write_all(&[*byte]).await?;
            }
            Ok::<_, io::Error>(())
        };
        let ended = tokio::time::timeout(WITHIN, dripped).await.expect("it ends");
        assert!(ended.is_err() && begun.elapsed() > idle_max, "{at_once}: {:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn connections_are_charged_and_those_without_memory_replace_those_that_wait() {
    let (charged, most) = (Arc::new(AtomicUsize::new(0)), 10);
    struct Given(Arc<AtomicUsize>);
    impl Drop for Given {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }
    let counted = Arc::clone(&charged);
    let account = Account::new(move |bytes| {
        assert!(bytes > 4 << 10, "a connection takes some memory");
        let has_room = counted.load(Ordering::Relaxed) < most;
        has_room.then(|| {
            counted.fetch_add(1, Ordering::Relaxed);
            Box::new(Given(Arc::clone(&counted))) as crate::Held
        })
    });
    let (serving, address) = server_with(|options| options.account = account).await;
    let mut flood = Vec::new();
    for _ in 0..3 * most {
        let mut socket = TcpStream::connect(&address).await.unwrap();
        let _ = socket.write_all(&[0; 5]).await;
        flood.push(socket);
    }
    let mut newcomer = TcpStream::connect(&address).await.unwrap();
    assert!(is_served(&mut newcomer).await);
    assert_eq!((serving.connections().get(), charged.load(Ordering::Relaxed)), (most, most));
    serving.stop().await;
    assert_eq!(charged.load(Ordering::Relaxed), 0);
}
