//! TEMPORARY stand-in of yeoul-net.
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

pub struct Connection {
    pub stream: TcpStream,
    pub peer: SocketAddr,
}
pub trait Handler: Send + Sync + 'static {
    fn serve(&self, connection: Connection) -> impl Future<Output = io::Result<()>> + Send;
}
pub struct Listener(TcpListener);
impl Listener {
    pub async fn bind(address: impl tokio::net::ToSocketAddrs) -> io::Result<Self> {
        Ok(Self(TcpListener::bind(address).await?))
    }
    pub fn address(&self) -> SocketAddr {
        self.0.local_addr().expect("bound")
    }
    pub fn port(&self) -> u16 {
        self.address().port()
    }
}
pub struct Gate;
impl Gate {
    pub fn new(_: usize) -> Self {
        Self
    }
}
pub struct Serving(SocketAddr, JoinHandle<()>);
impl Serving {
    pub fn address(&self) -> SocketAddr {
        self.0
    }
    pub async fn stop(mut self) {
        self.1.abort();
        let _ = (&mut self.1).await;
    }
}
impl Drop for Serving {
    fn drop(&mut self) {
        self.1.abort();
    }
}
pub fn serve_connections<H: Handler>(listener: Listener, _: Gate, handler: Arc<H>) -> Serving {
    let address = listener.address();
    let task = tokio::spawn(async move {
        let mut tasks = JoinSet::new();
        while let Ok((stream, peer)) = listener.0.accept().await {
            let _ = stream.set_nodelay(true);
            let handler = Arc::clone(&handler);
            tasks.spawn(async move {
                if let Err(error) = handler.serve(Connection { stream, peer }).await {
                    tracing::debug!(%error, "connection ended");
                }
            });
        }
    });
    Serving(address, task)
}
pub mod supervise {
    use std::sync::{Mutex, MutexGuard};
    pub struct DecisionLock<T>(Mutex<T>);
    impl<T> DecisionLock<T> {
        pub const fn new(_: &'static str, state: T) -> Self {
            Self(Mutex::new(state))
        }
        pub fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect("no panic")
        }
    }
    pub struct Supervisor(Vec<tokio::task::AbortHandle>);
    impl Supervisor {
        pub fn new(_: &'static str) -> Self {
            Self(Vec::new())
        }
        pub fn keep(&mut self, _: &'static str, work: impl Future<Output = ()> + Send + 'static) {
            self.0.push(tokio::spawn(work).abort_handle());
        }
    }
    impl Drop for Supervisor {
        fn drop(&mut self) {
            self.0.iter().for_each(|t| t.abort());
        }
    }
}
