//! `yeoul generate`, `yeoul bench tpch` and `tpcds`, and the contestant that these start.

use std::path::Path;
use std::process::ExitCode;

use yeoul_bench::Error;
use yeoul_bench::contestant::ContestantArgs;
use yeoul_bench::generate::{GenerateArgs, Suite as Tables};
use yeoul_bench::tpc::TpcArgs;

use super::until_done::{exit_code, until_done};
use crate::exit;

pub fn generate(args: GenerateArgs) -> ExitCode {
    until_done(move |stop| print(&args.run(stop)?).map(|()| true))
}

pub(super) fn compare(args: TpcArgs, suite: Tables) -> ExitCode {
    until_done(move |stop| {
        let compared = args.run(suite, stop)?;
        print(&compared.text).map(|()| compared.is_well)
    })
}

fn print(text: &str) -> Result<(), Error> {
    exit::print(text).map_err(|error| Error::io("write to", Path::new("stdout"), error))
}

pub fn contestant(args: &ContestantArgs) -> ExitCode {
    exit_code(yeoul_bench::contestant::run(args).map(|()| true))
}
