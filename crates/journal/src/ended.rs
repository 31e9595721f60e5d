use tokio::sync::watch;
use yeoul_base::{Error, ErrorKind};

/// Whether the journal has ended, for those who wait for that.
#[derive(Debug)]
pub struct Ended(watch::Sender<Option<String>>);

impl Default for Ended {
    fn default() -> Self {
        Self(watch::Sender::new(None))
    }
}

impl Ended {
    /// It has, for this reason. The first one stays.
    pub fn tell(&self, why: &str) {
        self.0.send_if_modified(|ended| {
            let is_first = ended.is_none();
            ended.get_or_insert_with(|| why.to_owned());
            is_first
        });
    }

    /// Why it has ended, once it has.
    pub async fn wait(&self) -> Error {
        let mut told = self.0.subscribe();
        let why = told.wait_for(Option::is_some).await.expect("the sender is here").clone();
        Error::new(ErrorKind::Unavailable, format!("the journal has ended: {}", why.unwrap_or_default()))
    }
}
