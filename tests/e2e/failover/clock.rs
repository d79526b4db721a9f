//! A wall clock that jumps, for one process: a few lines of C before its libc. What counts is `Instant` and the boot-time
//! clock, which stay as they are.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* As long as the file is there, it is an hour later. */
int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(clock, now);
    const char *file = getenv("CLOCK_SHIFT");
    if (!failed && clock == CLOCK_REALTIME && file && access(file, F_OK) == 0) now->tv_sec += 3600;
    return failed;
}
"#;

/// The library, and the file whose existence moves the clock.
pub(super) struct Clock {
    library: PathBuf,
    file: PathBuf,
}

impl Clock {
    /// Builds the library with the C compiler that links Rust programs, too.
    pub(super) fn build(folder: &Path) -> Result<Self> {
        let (source, library) = (folder.join("clock.c"), folder.join("clock.so"));
        std::fs::write(&source, SOURCE)?;
        let mut command = Command::new("cc");
        command.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source).arg("-ldl");
        let built = command.output().context("there is no C compiler: install gcc")?;
        ensure!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        Ok(Self { library, file: folder.join("clock-shift") })
    }

    /// What a process needs for it.
    pub(super) fn environment(&self) -> [(String, String); 2] {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        [("LD_PRELOAD".into(), text(&self.library)), ("CLOCK_SHIFT".into(), text(&self.file))]
    }

    /// It is an hour later.
    pub(super) fn jump(&self) -> Result<()> {
        Ok(std::fs::write(&self.file, "")?)
    }

    /// It is an hour earlier again.
    pub(super) fn back(&self) -> Result<()> {
        Ok(std::fs::remove_file(&self.file)?)
    }
}
