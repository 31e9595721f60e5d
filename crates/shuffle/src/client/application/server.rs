//! Answers the executors of an application.

use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use tokio::sync::Semaphore;
use tracing::debug;

use super::Application;
use super::names::check_opened;
use super::registered::Registered;
use super::state::Beginning;
use crate::error::{Error, Kind, Result};
use crate::net::{self, Body, Listener, Reply, Service, Serving, cannot_bind};
use crate::wire::executor::{Answer, Description, Request, Subject, VERSION, kind_of};
use crate::wire::message::{Message, MessageType};
use crate::wire::{Head, Header, Limits};

/// Options of an application's server for its executors.
#[derive(Clone)]
pub struct ServerOptions {
    /// The address to listen on. Whoever reaches it is taken for an executor.
    pub host: String,
    /// The port; 0 takes a free one.
    pub port: u16,
    /// Connections open at once, at least 1; one more is closed when it arrives. An executor has two by default.
    pub connections_max: usize,
    /// Unanswered requests at once, of all connections; one more waits, and its connection with it.
    pub requests_max: usize,
    /// Time for which a frame that has begun may make no progress, in either direction.
    pub idle_max: Duration,
    /// Time that a connection may take to bring its first frame.
    pub first_max: Duration,
    /// Time that a connection may be silent between two frames, with no answer under way.
    pub silent_max: Duration,
    /// Says which names of shuffles executors may [open](crate::client::Executor::open), or why not. It is asked each time,
    /// before anything is registered, and must not block. Without it they may open none.
    pub opens: Option<Arc<Opens>>,
}

/// Decides whether executors may open a name.
type Opens = dyn Fn(&str) -> Result<()> + Send + Sync;

impl fmt::Debug for ServerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, connections_max, requests_max, idle_max, first_max, silent_max, opens } = self;
        f.debug_struct("ServerOptions")
            .field("host", host)
            .field("port", port)
            .field("connections_max", connections_max)
            .field("requests_max", requests_max)
            .field("idle_max", idle_max)
            .field("first_max", first_max)
            .field("silent_max", silent_max)
            .field("opens", &opens.as_ref().map(|_| "some names"))
            .finish()
    }
}

impl Default for ServerOptions {
    /// A free port that this machine alone reaches.
    fn default() -> Self {
        let defaults = net::Options::new(Limits::EXECUTORS);
        Self {
            host: "127.0.0.1".to_owned(),
            port: 0,
            connections_max: defaults.connections_max,
            requests_max: 4096,
            idle_max: defaults.idle_max,
            first_max: defaults.first_max,
            silent_max: defaults.silent_max,
            opens: None,
        }
    }
}

/// Listens, and answers until the result is stopped or dropped.
pub(super) async fn serve(application: Application, options: ServerOptions) -> Result<Serving> {
    let net = net::Options {
        connections_max: options.connections_max,
        idle_max: options.idle_max,
        first_max: options.first_max,
        silent_max: options.silent_max,
        ..net::Options::new(Limits::EXECUTORS)
    };
    let (host, port) = (options.host.as_str(), options.port);
    let bound = Listener::bind((host, port), net).await;
    let listener = bound.map_err(|error| cannot_bind("executors'", host, port, error))?;
    let requests = Arc::new(Semaphore::new(options.requests_max.clamp(1, Semaphore::MAX_PERMITS)));
    Ok(listener.serve(Arc::new(ExecutorService { application, requests, opens: options.opens })))
}

/// The service on an application's port.
struct ExecutorService {
    application: Application,
    requests: Arc<Semaphore>,
    opens: Option<Arc<Opens>>,
}

impl Service for ExecutorService {
    async fn call(&self, head: Head, body: &mut Body<'_>, reply: Reply) -> io::Result<()> {
        if !matches!(head.header, Header::RpcRequest { .. }) {
            return Err(io::Error::other("an executor sends requests, and nothing else"));
        }
        let message = Message::decode_bare(body.whole().await?).map_err(io::Error::other)?;
        // Not before: a peer that sends half of a request would have a place for it.
        let place = Arc::clone(&self.requests).acquire_owned().await.expect("the semaphore is never closed");
        let (application, opens) = (self.application.clone(), self.opens.clone());
        tokio::spawn(async move {
            let answer = answer(&application, opens.as_deref(), &message).await.unwrap_or_else(|error| {
                debug!(application = %application.id(), request = kind_of(&message), ?error, "refused");
                Answer::Refused(error)
            });
            reply.message(&answer.to_message());
            drop(place);
        });
        Ok(())
    }
}

async fn answer(application: &Application, opens: Option<&Opens>, message: &Message) -> Result<Answer> {
    let request = Request::of_message(message).map_err(|error| {
        let known = MessageType::EXECUTOR_HELLO.0..=MessageType::OPEN_SHUFFLE.0;
        let what =
            if known.contains(&message.kind.0) { "malformed" } else { "nothing that an executor asks" };
        Error::new(Kind::Invalid, format!("{} is {what}: {error}", kind_of(message))).with_source(error)
    })?;
    match request {
        Request::Hello { version: VERSION } => Ok(Answer::Welcome {
            application: application.id().to_string(),
            life: application.session().life.clone(),
        }),
        Request::Hello { version } => {
            let text = format!(
                "the executor speaks version {version} of the executors' protocol, expected {VERSION}"
            );
            let hint = "run the same version of Yeoul in the application and its executors";
            Err(Error::new(Kind::Invalid, text).with_hint(hint))
        }
        Request::Describe(of) => Ok(Answer::Description(describe(&*shuffle(application, &of)?)?)),
        Request::Begin { of, map, attempt, request } => {
            let begun = shuffle(application, &of)?.state().begin(map, attempt, request)?;
            Ok(match begun {
                Beginning::Begun(attempt) => Answer::Begun(attempt),
                Beginning::Ended(ended) => Answer::EndedBefore(ended),
            })
        }
        Request::Revive { of, partition, epoch, avoid } => {
            let shuffle = shuffle(application, &of)?;
            shuffle.state().check_partition(partition)?;
            let made = shuffle.revive(partition, epoch, &avoid).await?;
            let state = shuffle.state();
            let (location, shunned) = (state.routes.current(partition).clone(), state.routes.shunned());
            Ok(Answer::Revived { location, made, shunned })
        }
        Request::End { of, map, attempt, summary } => {
            let ended = shuffle(application, &of)?.state().end(map, attempt, &summary)?;
            Ok(Answer::Ended(ended))
        }
        Request::Files { of, partition, winners } => {
            let files = shuffle(application, &of)?.files(partition).await?;
            let winners = if winners { files.winners.to_vec() } else { Vec::new() };
            Ok(Answer::Files { files: files.files, winners })
        }
        Request::Open { life, name, partitions } => {
            check_life(application, &life)?;
            let partitions = partitions as usize;
            check_opened(&name, partitions)?;
            check_opens(opens, &name)?;
            let shuffle = application.open(&name, partitions).await?.registered;
            Ok(Answer::Opened { shuffle: shuffle.key.shuffle, description: describe(&shuffle)? })
        }
    }
}

/// Refuses an executor that knows another process of the application.
fn check_life(application: &Application, life: &str) -> Result<()> {
    let session = application.session();
    if life == session.life {
        return Ok(());
    }
    let text = format!("application {} was started again, and does not know this executor", session.id);
    Err(Error::new(Kind::Conflict, text).with_hint("connect to it anew"))
}

/// Refuses names that executors may not open.
fn check_opens(opens: Option<&Opens>, name: &str) -> Result<()> {
    let Some(opens) = opens else {
        let text = format!("executors may not open shuffle `{name}`, nor any other by its name");
        return Err(Error::new(Kind::Denied, text)
            .with_hint("set `opens` in the options of the application's server, or use a number"));
    };
    opens(name)
}

/// The shuffle that a request is about.
fn shuffle(application: &Application, of: &Subject) -> Result<Arc<Registered>> {
    check_life(application, &of.life)?;
    application.session().shuffle(of.shuffle)
}

fn describe(shuffle: &Registered) -> Result<Description> {
    // From here on the number is not given back without it being known that an executor has heard of it.
    let _in_use = shuffle.enter()?;
    shuffle.session.tell(shuffle.key.shuffle);
    let options = &shuffle.session.options;
    let number = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    let (maps, shunned) = {
        let state = shuffle.state();
        (state.maps(), state.routes.shunned())
    };
    Ok(Description {
        maps,
        locations: shuffle.current_locations(),
        shunned,
        push_max_ms: i64::try_from(options.push_max.as_millis()).unwrap_or(i64::MAX),
        window: number(options.window),
        merge_len: number(options.merge_len),
        revives_max: number(options.revives_max),
    })
}
