//! The row groups of a file, read a few at a time, each time in the way that is the best by what was measured until then.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::ParquetAccessPlan;
use datafusion_datasource::morsel::{Morsel, MorselPlan, MorselPlanner, Morselizer};
use futures::stream::{BoxStream, StreamExt};
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, RowGroupMetaData};

use super::Scan;
use super::filtered_rows::{FilteredRows, Run};

/// Row groups that are read together at most, before it is chosen anew how.
const GROUPS_IN_RUN_MAX: usize = 32;

/// Makes the planners of files.
#[derive(Debug)]
pub(super) struct RunMorselizer {
    pub(super) scan: Arc<Scan>,
    pub(super) partition: usize,
}

impl Morselizer for RunMorselizer {
    fn plan_file(&self, file: PartitionedFile) -> Result<Box<dyn MorselPlanner>> {
        let scan = Arc::clone(&self.scan);
        let groups = VecDeque::new();
        let runs = Runs {
            scan,
            partition: self.partition,
            file,
            groups,
            count: 0,
            length: 1,
            is_opened: false,
            footer: None,
        };
        Ok(Box::new(FilePlanner { runs, step: Step::Footer }))
    }
}

/// A row group that is still to be read.
#[derive(Clone, Copy)]
struct Group {
    at: usize,
    rows: u64,
}

/// Rest of a file.
struct Runs {
    scan: Arc<Scan>,
    partition: usize,
    file: PartitionedFile,
    groups: VecDeque<Group>,
    /// Row groups of the whole file.
    count: usize,
    /// Row groups of the next run.
    length: usize,
    is_opened: bool,
    /// The footer with the page indexes, once the file is opened for the second time.
    footer: Option<Arc<ParquetMetaData>>,
}

impl Runs {
    /// Learns the row groups that are to be read, as DataFusion selects them.
    fn select(&mut self, footer: &ParquetMetaData) {
        self.count = footer.num_row_groups();
        let is_selected = |group: &RowGroupMetaData| {
            let first = group.column(0);
            let start = first.dictionary_page_offset().unwrap_or_else(|| first.data_page_offset());
            self.file.range.as_ref().is_none_or(|range| range.contains(start))
        };
        let groups = footer.row_groups().iter().enumerate().filter(|(_, group)| {
            // A file without columns has nothing to be selected by.
            group.columns().is_empty() || is_selected(group)
        });
        self.groups = groups
            .map(|(at, group)| Group { at, rows: u64::try_from(group.num_rows()).unwrap_or(0) })
            .collect();
    }

    /// True if the file was opened before, and what DataFusion read of it then would be read again.
    fn lacks_footer(&self) -> bool {
        self.footer.is_none() && !self.groups.is_empty() && self.is_opened
    }

    /// Opens the next row groups, or the whole file where these may not be divided.
    fn open(&mut self) -> Result<Option<(Run, Box<dyn MorselPlanner>)>> {
        let length = if self.scan.is_divided { self.length } else { self.groups.len() };
        let taken: Vec<Group> = self.groups.drain(..length.min(self.groups.len())).collect();
        if taken.is_empty() {
            return Ok(None);
        }
        if self.scan.choice.is_settled() || !self.scan.is_asking() {
            self.length = (self.length * 2).min(GROUPS_IN_RUN_MAX);
        }
        self.is_opened = true;
        let way = self.scan.way();
        let rows = taken.iter().map(|group| group.rows).sum();
        let run = Run { way, groups: taken.len(), rows };
        let mut file = self.file.clone();
        if taken.len() < self.count && self.scan.is_divided {
            let mut plan = ParquetAccessPlan::new_none(self.count);
            taken.iter().for_each(|group| plan.scan(group.at));
            file = file.with_extension(plan);
        }
        Ok(Some((run, self.scan.morselizer(way, self.partition, self.footer.as_ref())?.plan_file(file)?)))
    }
}

/// Next step of a planner.
enum Step {
    /// Reads the footer.
    Footer,
    /// Opens the next row groups.
    Open,
    /// Goes on with opening them.
    Opening(Run, VecDeque<Box<dyn MorselPlanner>>),
}

/// Planner of a file. It opens row groups once those before are read.
struct FilePlanner {
    runs: Runs,
    step: Step,
}

impl FilePlanner {
    /// Reads the footer for the row groups in it, or with page indexes for those who open the file from now on.
    fn read_footer(mut runs: Runs) -> Result<MorselPlan> {
        let mut reader = runs.scan.reader(runs.partition, &runs.file)?;
        Ok(MorselPlan::new().with_pending_planner(async move {
            let policy = if runs.is_opened { PageIndexPolicy::Optional } else { PageIndexPolicy::Skip };
            let options = ArrowReaderOptions::new().with_page_index_policy(policy);
            let footer = reader.get_metadata(Some(&options)).await?;
            if runs.is_opened {
                runs.footer = Some(footer);
            } else {
                runs.select(&footer);
            }
            Ok(Box::new(Self { runs, step: Step::Open }) as Box<dyn MorselPlanner>)
        }))
    }
}

impl MorselPlanner for FilePlanner {
    fn plan(self: Box<Self>) -> Result<Option<MorselPlan>> {
        let Self { mut runs, step } = *self;
        let (run, mut planners) = match step {
            Step::Footer => return Self::read_footer(runs).map(Some),
            Step::Open if runs.lacks_footer() => return Self::read_footer(runs).map(Some),
            Step::Open => match runs.open()? {
                None => return Ok(None),
                Some((run, planner)) => (run, VecDeque::from([planner])),
            },
            Step::Opening(run, planners) => (run, planners),
        };
        let mut opened = match planners.pop_front() {
            Some(planner) => planner.plan()?.unwrap_or_default(),
            None => MorselPlan::new(),
        };
        let scan = &runs.scan;
        let morsels = opened
            .take_morsels()
            .into_iter()
            .map(|decoded| Box::new(RunMorsel { decoded, scan: Arc::clone(scan), run }) as Box<dyn Morsel>);
        let morsels: Vec<Box<dyn Morsel>> = morsels.collect();
        let is_empty = morsels.is_empty();
        let plan = MorselPlan::new().with_morsels(morsels);
        for next in opened.take_ready_planners().into_iter().rev() {
            planners.push_front(next);
        }
        if let Some(pending) = opened.take_pending_planner() {
            return Ok(Some(plan.with_pending_planner(async move {
                planners.push_front(pending.await?);
                Ok(Box::new(Self { runs, step: Step::Opening(run, planners) }) as Box<dyn MorselPlanner>)
            })));
        }
        let step = if planners.is_empty() { Step::Open } else { Step::Opening(run, planners) };
        if matches!(step, Step::Open) && runs.groups.is_empty() {
            // A stream that is given nothing at all must be told that it is the end.
            return Ok((!is_empty).then_some(plan));
        }
        Ok(Some(plan.with_planners(vec![Box::new(Self { runs, step })])))
    }
}

impl fmt::Debug for FilePlanner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = &self.runs.file.object_meta.location;
        f.debug_struct("FilePlanner").field("file", file).finish_non_exhaustive()
    }
}

/// The rows of some row groups.
struct RunMorsel {
    decoded: Box<dyn Morsel>,
    scan: Arc<Scan>,
    run: Run,
}

impl Morsel for RunMorsel {
    fn into_stream(self: Box<Self>) -> BoxStream<'static, Result<RecordBatch>> {
        FilteredRows::new(self.decoded.into_stream(), self.scan, self.run).boxed()
    }
}

impl fmt::Debug for RunMorsel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunMorsel").field("run", &self.run).finish_non_exhaustive()
    }
}
