use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A copy that takes less has no bar.
const QUIET: Duration = Duration::from_secs(1);

/// How far a copy is, on a terminal, once it has taken more than a second.
pub(super) struct Progress {
    bar: ProgressBar,
    started: Instant,
    is_shown: bool,
}

impl Progress {
    /// A copy of so many bytes, if that is known.
    pub fn new(name: &str, bytes: Option<u64>, is_shown: bool) -> Self {
        let bar = ProgressBar::with_draw_target(bytes, ProgressDrawTarget::hidden());
        if is_shown {
            let style = match bytes {
                Some(_) => "{msg} {wide_bar} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left",
                None => "{msg} {bytes}, {bytes_per_sec}",
            };
            bar.set_style(ProgressStyle::with_template(style).expect("the template is one"));
            bar.set_message(name.to_owned());
        }
        Self { bar, started: Instant::now(), is_shown }
    }

    /// So many more bytes are copied.
    pub fn add(&self, bytes: usize) {
        if self.is_shown && self.bar.is_hidden() && self.started.elapsed() >= QUIET {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.inc(bytes as u64);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
