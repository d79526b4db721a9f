//! A wall clock that jumps, for one process: a few lines of C that the process loads before libc. The host relies on
//! `Instant` and the boot-time clock, which stay right.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* By how many seconds the clock is wrong: it stands in the file, and who writes it there moves the clock. */
static const volatile long long *shift;

__attribute__((constructor)) static void find(void) {
    const char *path = getenv("CLOCK_SHIFT");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *page = mmap(NULL, sizeof *shift, PROT_READ, MAP_SHARED, file, 0);
    if (page != MAP_FAILED) shift = page;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(clock, now);
    if (!failed && clock == CLOCK_REALTIME && shift) now->tv_sec += *shift;
    return failed;
}
"#;

/// The library that makes wall clocks wrong.
pub(super) struct Library {
    folder: PathBuf,
    file: PathBuf,
}

/// The wall clock of one process.
pub(super) struct Clock {
    library: PathBuf,
    shift: PathBuf,
}

impl Library {
    /// Builds it with the C compiler that links Rust programs, too.
    pub(super) fn build(folder: &Path) -> Result<Self> {
        let (source, file) = (folder.join("clock.c"), folder.join("clock.so"));
        std::fs::write(&source, SOURCE)?;
        let mut command = Command::new("cc");
        command.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&file).arg(&source).arg("-ldl");
        let built = command.output().context("there is no C compiler: install gcc")?;
        ensure!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        Ok(Self { folder: folder.to_owned(), file })
    }

    /// A clock for the process of this name alone; at first it is right.
    pub(super) fn clock(&self, process: &str) -> Result<Clock> {
        let shift = self.folder.join(format!("clock-of-{process}"));
        std::fs::write(&shift, 0_i64.to_ne_bytes())?;
        Ok(Clock { library: self.file.clone(), shift })
    }
}

impl Clock {
    /// The environment variables that the process needs for this clock.
    pub(super) fn environment(&self) -> [(String, String); 2] {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        [("LD_PRELOAD".into(), text(&self.library)), ("CLOCK_SHIFT".into(), text(&self.shift))]
    }

    /// Makes the clock wrong by so many seconds from now on.
    pub(super) fn shift(&self, seconds: i64) -> Result<()> {
        // Written in place: the process has the file mapped into its memory.
        Ok(File::options().write(true).open(&self.shift)?.write_all_at(&seconds.to_ne_bytes(), 0)?)
    }
}
