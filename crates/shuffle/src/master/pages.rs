//! The master's HTTP: Celeborn 0.6's `/api/v1`, as its command line tool and Sail's tests use it, and Prometheus metrics.
//! That tool's `--…-dynamic-conf` has no route here: settings are read only at the start.

use std::sync::Arc;

use serde::Deserialize;
use yeoul_net::http::{Response, Routes};

use super::server::Shared;
use super::state::NAMED_MAX;
use super::{console, messages, view};
use crate::Error;
use crate::api::{self, handled, handled_with, parse};
use crate::host_pages;
use crate::ids::{ApplicationId, ShuffleId, WorkerId};
use crate::loggers;
use crate::metrics::Exposition;
use crate::report::Command;
use crate::wire::{DecodeError, received};

/// The pages of a leading master.
pub(super) struct MasterPages {
    shared: Arc<Shared>,
}

impl MasterPages {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    async fn exclude(&self, body: &[u8]) -> Result<Response, Response> {
        let Exclusion { add, remove } = parse(body)?;
        let (add, remove) = (ids(&add)?, ids(&remove)?);
        let excluded = self
            .shared
            .decide(|state, now| state.exclude_workers(now, &add, &remove))
            .await
            .map_err(unkept)?;
        excluded.map_err(|full| refused(full.to_string()))?;
        // As in Celeborn, an unknown worker may be excluded; the answer names it.
        let mut unknown = [&add[..], &remove[..]].concat();
        self.shared.read(|state| unknown.retain(|worker| !state.is_registered(worker)));
        let message = format!("excluded {}, put back {}", list(&add), list(&remove));
        Ok(handled(true, message + &but("not registered", &unknown)))
    }

    async fn forget(&self, body: &[u8]) -> Result<Response, Response> {
        let Workers { workers } = parse(body)?;
        let workers = ids(&workers)?;
        let forgotten =
            self.shared.decide(|state, now| state.forget_departed(now, &workers)).await.map_err(unkept)?;
        Ok(handled(true, format!("forgot {}", list(&forgotten))))
    }

    async fn command(&self, body: &[u8]) -> Result<Response, Response> {
        let WorkerEvent { event_type, workers } = parse(body)?;
        let workers = ids(&workers)?;
        let command = match event_type.to_ascii_uppercase().as_str() {
            "IMMEDIATELY" => Command::StopNow,
            "GRACEFUL" => Command::StopGracefully,
            "DECOMMISSION" => Command::Decommission,
            "DECOMMISSIONTHENIDLE" => {
                let message =
                    "DECOMMISSIONTHENIDLE is not served, for a worker that has left ends: use DECOMMISSION";
                return Err(refused(message.to_owned()));
            }
            "RECOMMISSION" | "NONE" => Command::Recommission,
            other => {
                let expected = "IMMEDIATELY, GRACEFUL, DECOMMISSION, RECOMMISSION or NONE";
                let message = format!("unknown eventType `{other:.40}`: expected {expected}");
                return Err(refused(message));
            }
        };
        let unknown = self
            .shared
            .decide(|state, now| state.command_workers(now, command, &workers))
            .await
            .map_err(unkept)?;
        let unknown = unknown.map_err(|full| refused(full.to_string()))?;
        // Celeborn 0.6 reports unknown workers only if it knows none of them; if it knows some, it reports success.
        let told: Vec<_> = workers.iter().filter(|worker| !unknown.contains(worker)).cloned().collect();
        if workers.is_empty() {
            return Err(refused("no worker is named".to_owned()));
        }
        if told.is_empty() {
            return Err(refused(format!("none of them is registered: {}", list(&unknown))));
        }
        Ok(handled(true, format!("told {} to {event_type}", list(&told)) + &but("not registered", &unknown)))
    }

    async fn delete_applications(&self, body: &[u8]) -> Result<Response, Response> {
        let Applications { apps } = parse(body)?;
        at_most(&apps)?;
        let applications: Result<Vec<_>, _> = apps.iter().map(|text| application_id(text)).collect();
        let applications = applications?;
        let (known, unknown): (Vec<&ApplicationId>, Vec<&ApplicationId>) =
            self.shared.read(|state| applications.iter().partition(|application| state.knows(application)));
        for application in &applications {
            self.shared
                .decide(|state, now| state.remove_application(now, application))
                .await
                .map_err(unkept)?;
        }
        Ok(handled(true, format!("deleted {}", list(&known)) + &but("not known", &unknown)))
    }

    async fn revise(&self, body: &[u8]) -> Result<Response, Response> {
        let (application, shuffles) = application_shuffles(body)?;
        self.shared.may_grow().map_err(unkept)?;
        let revised = self
            .shared
            .decide(|state, now| state.revise_shuffles(now, &application, &shuffles))
            .await
            .map_err(unkept)?;
        revised.map_err(|refusal| refused(refusal.to_string()))?;
        Ok(handled(true, format!("registered {}", list(&shuffles))))
    }

    async fn unregister(&self, body: &[u8]) -> Result<Response, Response> {
        let (application, shuffles) = application_shuffles(body)?;
        let known = self.shared.read(|state| state.known_shuffles(&application));
        let (known, unknown): (Vec<&ShuffleId>, Vec<&ShuffleId>) =
            shuffles.iter().partition(|id| known.contains(id));
        // The unknown ones, too: a worker that reports one later is told to delete it.
        self.shared
            .decide(|state, now| state.unregister_shuffles(now, &application, &shuffles))
            .await
            .map_err(unkept)?;
        Ok(handled(true, format!("unregistered {}", list(&known)) + &but("not known", &unknown)))
    }

    fn metrics(&self) -> String {
        let shared = &self.shared;
        let mut exposition = Exposition::new("Master");
        shared.read(|state| view::metrics(state, &mut exposition));
        exposition.gauge("IsActiveMaster", "1: this master decides", 1);
        let fault = u8::from(shared.journal_fault().is_some());
        exposition.gauge("JournalFault", "1 while the journal of --dir does not keep records, else 0", fault);
        exposition.gauge(
            "JournalSnapshotFailures",
            "snapshots of the journal of --dir that have failed since the last one that did not: its files grow meanwhile",
            shared.failed_snapshots(),
        );
        let meters = &shared.meters;
        exposition.timer("OfferSlotsTime", "slot requests", &meters.offer_slots);
        exposition.counter(
            "RequestSlotsFailed",
            "slot requests that were refused",
            meters.failed_slots.get(),
        );
        let told = &meters.drivers;
        for (name, what, count) in [
            ("ApplicationTotalCount", "applications whose drivers have begun", &told.applications),
            ("ShuffleTotalCount", "shuffles that drivers have begun", &told.shuffles),
            (
                "ApplicationFallbackCount",
                "applications that use their own shuffle, as drivers say",
                &told.application_fallbacks,
            ),
            (
                "ShuffleFallbackCount",
                "shuffles that went to Spark's own, as drivers say",
                &told.shuffle_fallbacks,
            ),
        ] {
            exposition.gauge(name, what, count.get());
        }
        exposition.rpc(&meters.rpc);
        exposition.process();
        exposition.finish()
    }
}

impl Routes for MasterPages {
    const LIST: &str = "\
GET  /api/v1/conf                               the options in effect
GET  /api/v1/masters                            who leads
GET  /api/v1/workers                            the workers, by standing
GET  /api/v1/workers/topology                   the workers, by rack
GET  /api/v1/workers/events                     the workers with a command under way
POST /api/v1/workers/events                     tell workers to stop, to leave or to stay
POST /api/v1/workers/exclude                    take workers out of service, or put them back
POST /api/v1/workers/remove_unavailable         forget workers that are gone
GET  /api/v1/applications                       the applications, with their last heartbeats
GET  /api/v1/applications/info                  the applications, with what they say about themselves
GET  /api/v1/applications/hostnames             the hosts of their drivers
POST /api/v1/applications/delete_apps           let applications go
POST /api/v1/applications/revise_lost_shuffles  register shuffles of an application again
GET  /api/v1/shuffles                           <application>-<number> of all registered shuffles
POST /api/v1/shuffles/unregister                let shuffles of an application go
GET  /api/v1/loggers                            levels of the log; ?name=<logger> for one
POST /api/v1/loggers                            set the level of a logger while the master runs
GET  /api/v1/container_info                     the machine or container
GET  /api/v1/thread_dump                        the threads of this process
GET  /metrics/prometheus                        numbers for Prometheus, under Celeborn's names
GET  /healthz                                   200, or 503 with what is wrong with the journal
";

    fn page(&self, path: &str, query: &str) -> Option<Response> {
        let shared = &self.shared;
        let (now, address, fault) = (shared.now(), shared.address(), shared.journal_fault());
        let made = || shared.read(|state| console::page(state, now, &address, fault.as_deref(), query));
        (path == "/").then(|| Response::html(200, made().render()))
    }

    fn get(&self, path: &str, query: &str) -> Option<Response> {
        let shared = &self.shared;
        let now = shared.now();
        let applications = || shared.read(view::Applications::of);
        Some(api::ok(&match path {
            "/api/v1/conf" => api::conf(&shared.options),
            "/api/v1/container_info" => host_pages::container_info(&shared.options.host),
            "/api/v1/thread_dump" => host_pages::thread_dump(),
            loggers::PATH => return Some(loggers::list(shared.options.log_levels.as_ref()?, query)),
            "/api/v1/shuffles" => return Some(applications().shuffles()),
            "/api/v1/masters" => view::masters(&shared.address()),
            "/api/v1/workers" => shared.read(|state| view::workers(state, now)),
            "/api/v1/workers/topology" => shared.read(view::topology),
            "/api/v1/workers/events" => shared.read(|state| view::worker_events(state, now)),
            "/api/v1/applications" => return Some(applications().list(view::application)),
            "/api/v1/applications/info" => return Some(applications().list(view::application_info)),
            "/api/v1/applications/hostnames" => shared.read(view::hostnames),
            yeoul_console::STYLE_PATH => return Some(Response::css(yeoul_console::STYLE)),
            "/metrics/prometheus" => return Some(Response::text(200, self.metrics())),
            "/healthz" => {
                return Some(match shared.journal_fault() {
                    None => Response::text(200, "ok\n"),
                    Some(fault) => {
                        Response::text(503, format!("the journal does not keep records: {fault}\n"))
                    }
                });
            }
            _ => return None,
        }))
    }

    async fn post(&self, path: &str, body: &[u8]) -> Option<Result<Response, Response>> {
        Some(match path {
            "/api/v1/workers/exclude" => self.exclude(body).await,
            "/api/v1/workers/remove_unavailable" => self.forget(body).await,
            "/api/v1/workers/events" => self.command(body).await,
            "/api/v1/applications/delete_apps" => self.delete_applications(body).await,
            "/api/v1/applications/revise_lost_shuffles" => self.revise(body).await,
            "/api/v1/shuffles/unregister" => self.unregister(body).await,
            loggers::PATH => loggers::set(self.shared.options.log_levels.as_ref()?, body),
            _ => return None,
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WorkerName {
    host: String,
    rpc_port: u16,
    push_port: u16,
    fetch_port: u16,
    replicate_port: u16,
}

#[derive(Deserialize)]
struct Exclusion {
    #[serde(default)]
    add: Vec<WorkerName>,
    #[serde(default)]
    remove: Vec<WorkerName>,
}

#[derive(Deserialize)]
struct Workers {
    workers: Vec<WorkerName>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WorkerEvent {
    event_type: String,
    workers: Vec<WorkerName>,
}

#[derive(Deserialize)]
struct Applications {
    apps: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ApplicationShuffles {
    app_id: String,
    shuffle_ids: Vec<i32>,
}

fn application_shuffles(body: &[u8]) -> Result<(ApplicationId, Vec<ShuffleId>), Response> {
    let ApplicationShuffles { app_id, shuffle_ids } = parse(body)?;
    at_most(&shuffle_ids)?;
    let shuffles: Result<Vec<_>, _> = shuffle_ids.into_iter().map(messages::shuffle_id).collect();
    Ok((application_id(&app_id)?, shuffles.map_err(malformed)?))
}

fn application_id(text: &str) -> Result<ApplicationId, Response> {
    messages::application_id(text).map_err(malformed)
}

fn ids(names: &[WorkerName]) -> Result<Vec<WorkerId>, Response> {
    let id = |name: &WorkerName| {
        let identity = received::WorkerIdentity {
            host: name.host.clone(),
            rpc_port: name.rpc_port.into(),
            push_port: name.push_port.into(),
            fetch_port: name.fetch_port.into(),
            replicate_port: name.replicate_port.into(),
        };
        WorkerId::try_from(&identity).map_err(malformed)
    };
    names.iter().map(id).collect()
}

fn at_most<T>(named: &[T]) -> Result<(), Response> {
    if named.len() <= NAMED_MAX {
        return Ok(());
    }
    Err(refused(format!("a request must name at most {NAMED_MAX}, and this one names {}", named.len())))
}

fn malformed(error: DecodeError) -> Response {
    refused(format!("{}: {}", error.field, error.problem))
}

fn refused(why: String) -> Response {
    handled_with(400, false, why)
}

/// What was decided rests on a record that could not be kept.
fn unkept(error: Error) -> Response {
    handled_with(503, false, error.to_string())
}

/// Added to an answer if something that was named is not there.
fn but<T: ToString>(what: &str, unknown: &[T]) -> String {
    if unknown.is_empty() { String::new() } else { format!("; {what}: {}", list(unknown)) }
}

fn list<T: ToString>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(T::to_string).collect();
    if items.is_empty() { "nothing".to_owned() } else { items.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::super::state::scene::{at, grant, holding, id, state_of};
    use super::super::state::{ApplicationRegistration, Limits};
    use super::*;

    #[tokio::test]
    async fn shuffles_of_an_application_that_was_let_go_are_known_until_they_are_removed() {
        let mut state = state_of(1);
        let _ = grant(&mut state, Default::default()).unwrap();
        for second in (0..=Limits::default().application_timeout.as_secs()).step_by(5) {
            let heard = state.worker_heartbeat(at(second), 0, &id(0), 0, holding());
            assert_eq!(heard.reply, Ok(()));
            let _ = state.expire(at(second));
        }
        assert!(state.applications().is_empty());
        let pages = MasterPages::new(Arc::new(Shared::of(state.into_state())));
        for expected in ["unregistered 0; not known: 5", "unregistered nothing; not known: 0, 5"] {
            let body = br#"{"appId":"app","shuffleIds":[0,5]}"#;
            let answer =
                pages.post("/api/v1/shuffles/unregister", body).await.expect("there is such a page").unwrap();
            let text = String::from_utf8(answer.body.to_vec()).unwrap();
            assert!(text.contains(&format!("\"{expected}\"")), "{text}");
        }
    }

    #[test]
    fn long_lists_are_made_in_pieces_that_are_the_list() {
        let mut state = state_of(1);
        let names: Vec<String> = (0..3000).map(|number| format!("app-{number:05}")).collect();
        for name in &names {
            let properties = vec![("spark.app.name".to_owned(), "x".repeat(500))];
            let registered =
                ApplicationRegistration { properties, ..ApplicationRegistration::of(name.as_str().into()) };
            assert!(state.register_application(at(0), registered).reply.is_ok());
        }
        let revised = ShuffleId(0)..=ShuffleId(0);
        let first: Vec<ShuffleId> = (0..9000).map(ShuffleId).collect();
        for part in first.chunks(1000) {
            assert_eq!(state.revise_shuffles(at(0), &names[0].as_str().into(), part).reply, Ok(()));
        }
        assert_eq!(
            state.revise_shuffles(at(0), &names[7].as_str().into(), &[*revised.start()]).reply,
            Ok(())
        );
        let pages = MasterPages::new(Arc::new(Shared::of(state.into_state())));
        for (path, list, len) in [
            ("/api/v1/applications", "applications", 3000),
            ("/api/v1/applications/info", "applications", 3000),
            ("/api/v1/shuffles", "shuffleIds", 9001),
        ] {
            let answer = pages.get(path, "").unwrap();
            assert!(answer.body.is_empty() && !answer.rest.is_nothing(), "{path} is made before it is read");
            let whole: serde_json::Value = serde_json::from_slice(&answer.whole()).unwrap();
            let items = whole[list].as_array().unwrap();
            assert_eq!(items.len(), len, "{path}");
            assert!(items.windows(2).all(|two| two[0] != two[1]), "{path} has something twice");
        }
    }
}
