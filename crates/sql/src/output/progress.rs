use std::io::IsTerminal;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use terminal_size::{Width, terminal_size_of};
use yeoul_base::ByteSize;

use super::answer::duration_text;

/// A query that ends within this time shows no progress.
const QUIET: Duration = Duration::from_secs(1);
/// Time between updates.
const TICK: Duration = Duration::from_millis(200);

/// The width assumed for a terminal that does not report it.
const WIDTH_DEFAULT: usize = 80;
/// Columns left free at the end of the line: the terminal echoes `^C` there, which in a full line would scroll the line up,
/// where it cannot be cleared.
const ECHO_COLUMNS: usize = 4;

/// The progress of a query, as far as known. All numbers are totals since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProgressSnapshot {
    /// The share of the input that has been read, or need not be: 0 to 1.
    pub input_share: Option<f64>,
    /// Rows that the scans have read.
    pub rows: u64,
    /// Bytes that operators have spilled to disk.
    pub spilled: ByteSize,
    /// Memory of the process at the moment.
    pub memory: ByteSize,
    /// The limit on it.
    pub memory_limit: Option<ByteSize>,
}

impl ProgressSnapshot {
    /// The text beside the bar: `12.3 M rows, spilled 1.2 GiB, memory 0.8 of 1 GiB`.
    fn text(&self) -> String {
        let mut text = format!("{} rows", count_text(self.rows));
        if self.spilled > ByteSize::ZERO {
            text.push_str(&format!(", spilled {}", self.spilled));
        }
        if self.memory > ByteSize::ZERO {
            text.push_str(&format!(", memory {}", self.memory));
            if let Some(limit) = self.memory_limit {
                text.push_str(&format!(" of {limit}"));
            }
        }
        text
    }
}

/// A count with three digits and a unit: `950`, `12.3 k`, `4.56 M`.
fn count_text(count: u64) -> String {
    let (scale, unit) = match count {
        0..10_000 => return count.to_string(),
        10_000..1_000_000 => (1e3, 'k'),
        1_000_000..1_000_000_000 => (1e6, 'M'),
        _ => (1e9, 'G'),
    };
    let scaled = count as f64 / scale;
    let decimals = if scaled < 10.0 { 2 } else { usize::from(scaled < 100.0) };
    format!("{scaled:.decimals$} {unit}")
}

/// Something that can say how far it has come, at any time and from any thread.
pub trait ProgressSource: Send + Sync {
    /// How far it has come. Called about five times a second: it must be fast, and may be out of date.
    fn snapshot(&self) -> ProgressSnapshot;
}

/// A line on the terminal (stderr) that shows the progress of a query once it has taken longer than a second.
///
/// It is drawn from its own thread, because the query may keep all threads of the runtime busy. [`clear`](Self::clear) or
/// dropping it removes the line from the screen.
pub struct ProgressLine {
    stop: Arc<Stop>,
    drawer: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Stop {
    stopped: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    /// Waits for `time` or until stopped. Returns whether it is stopped.
    fn wait(&self, time: Duration) -> bool {
        let stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(stopped, time, |stopped| !*stopped);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn set(&self) {
        *self.stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }
}

impl ProgressLine {
    /// Follows `source` on stderr if that is a terminal; otherwise does nothing, at no cost.
    pub fn on_stderr(source: Arc<dyn ProgressSource>) -> Self {
        if std::io::stderr().is_terminal() {
            Self::start(source, ProgressDrawTarget::stderr(), QUIET, stderr_width)
        } else {
            Self { stop: Arc::default(), drawer: None }
        }
    }

    fn start(
        source: Arc<dyn ProgressSource>,
        target: ProgressDrawTarget,
        quiet: Duration,
        width: fn() -> usize,
    ) -> Self {
        let stop = Arc::new(Stop::default());
        let (seen, started) = (Arc::clone(&stop), Instant::now());
        let drawer = std::thread::Builder::new()
            .name("progress".to_owned())
            .spawn(move || {
                if seen.wait(quiet) {
                    return;
                }
                let bar = ProgressBar::with_draw_target(None, target);
                loop {
                    draw(&bar, &source.snapshot(), started.elapsed(), width());
                    if seen.wait(TICK) {
                        break;
                    }
                }
                bar.finish_and_clear();
            })
            // Without a thread there is no progress line; the query runs anyway.
            .ok();
        Self { stop, drawer }
    }

    /// Removes the line from the screen, for good. Returns when it is gone.
    pub fn clear(&mut self) {
        self.stop.set();
        if let Some(drawer) = self.drawer.take() {
            // If the drawing thread panicked, there is nothing left to clear.
            let _ = drawer.join();
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The width of the terminal on stderr, which may change while the query runs.
fn stderr_width() -> usize {
    terminal_size_of(std::io::stderr()).map_or(WIDTH_DEFAULT, |(Width(columns), _)| usize::from(columns))
}

fn draw(bar: &ProgressBar, snapshot: &ProgressSnapshot, elapsed: Duration, width: usize) {
    const SCALE: u64 = 1000;
    let (template, beside, position) = match snapshot.input_share {
        Some(share) => {
            ("{bar:10} {percent:>3} %  {msg}", 10 + 8, (share.clamp(0.0, 1.0) * SCALE as f64) as u64)
        }
        None => ("{spinner} {msg}", 2, 0),
    };
    let style = ProgressStyle::with_template(template).expect("the templates are constant and valid");
    bar.set_style(style.progress_chars("━╸─"));
    bar.set_length(SCALE);
    bar.set_position(position);
    let message = format!("{}, {}", duration_text(elapsed), snapshot.text());
    bar.set_message(message.chars().take(width.saturating_sub(beside + ECHO_COLUMNS)).collect::<String>());
    bar.tick();
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::TermLike;
    use std::io;
    use std::sync::atomic::{AtomicU64, Ordering};

    const WIDTH: usize = 90;

    /// A terminal of one line that remembers its contents.
    #[derive(Clone, Debug, Default)]
    struct OneLine(Arc<Mutex<String>>);

    impl OneLine {
        fn contents(&self) -> String {
            self.0.lock().unwrap().trim().to_owned()
        }
    }

    impl TermLike for OneLine {
        fn width(&self) -> u16 {
            WIDTH as u16
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, line: &str) -> io::Result<()> {
            self.write_str(line)
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.0.lock().unwrap().push_str(text);
            Ok(())
        }
        fn clear_line(&self) -> io::Result<()> {
            self.0.lock().unwrap().clear();
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[derive(Default)]
    struct Counted {
        asked: AtomicU64,
        share: Option<f64>,
    }

    impl ProgressSource for Counted {
        fn snapshot(&self) -> ProgressSnapshot {
            self.asked.fetch_add(1, Ordering::Relaxed);
            ProgressSnapshot {
                input_share: self.share,
                rows: 12_345_678,
                spilled: ByteSize::from_mib(5),
                memory: ByteSize::from_mib(800),
                memory_limit: Some(ByteSize::from_gib(1)),
            }
        }
    }

    fn screen_after(source: &Arc<Counted>, quiet: Duration) -> (String, String) {
        let term = OneLine::default();
        let target = ProgressDrawTarget::term_like_with_hz(Box::new(term.clone()), 20);
        let started = Instant::now();
        let mut progress =
            ProgressLine::start(Arc::clone(source) as Arc<dyn ProgressSource>, target, quiet, || WIDTH);
        while source.asked.load(Ordering::Relaxed) < 3
            && started.elapsed() < Duration::from_secs(5)
            && quiet.is_zero()
        {
            std::thread::yield_now();
        }
        let during = term.contents();
        progress.clear();
        (during, term.contents())
    }

    #[test]
    fn the_line_shows_what_is_known_and_is_gone_after_it_is_cleared() {
        let source = Arc::new(Counted { share: Some(0.25), ..Counted::default() });
        let (during, after) = screen_after(&source, Duration::ZERO);
        assert!(during.contains("25 %") && during.contains("12.3 M rows"), "{during:?}");
        assert!(during.contains("spilled 5 MiB, memory 800 MiB of 1 GiB"), "{during:?}");
        assert_eq!(after, "");
    }

    #[test]
    fn without_a_share_there_is_no_bar() {
        let (during, after) = screen_after(&Arc::new(Counted::default()), Duration::ZERO);
        assert!(!during.contains('%') && during.contains("12.3 M rows"), "{during:?}");
        assert_eq!(after, "");
    }

    #[test]
    fn a_quick_query_draws_nothing_and_is_not_asked() {
        let source = Arc::new(Counted::default());
        let (during, after) = screen_after(&source, Duration::from_secs(60));
        assert_eq!((during.as_str(), after.as_str()), ("", ""));
        assert_eq!(source.asked.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn counts_have_three_digits() {
        for (count, text) in
            [(0, "0"), (9_999, "9999"), (12_345, "12.3 k"), (999_900, "1000 k"), (4_560_000, "4.56 M")]
        {
            assert_eq!(count_text(count), text);
        }
    }
}
