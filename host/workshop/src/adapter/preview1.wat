;; What takes the place of WASI preview 1 (`wasi_snapshot_preview1`) in a plugin, which has no WASI.
;;
;; A compiler that knows WASI makes modules that import it even where the program never asks for a file: its runtime reads the
;; clock, asks for the arguments and writes a panic to standard error. This module answers all of that without a host behind
;; it, and the same in every run, so that a plugin stays a function of its arguments:
;;
;;   fd_write               1 and 2 become lines of the log (info, error); any other is EBADF
;;   clock_time_get         counts calls, a microsecond for each, and never answers 0
;;   poll_oneoff            a wait has ended when it begins, and the clock shows it
;;   random_get             the same sequence in every instance
;;   args_*, environ_*      there are none
;;   sched_yield            does nothing
;;   proc_exit              traps
;;   all others             EBADF (8) for what is asked of a descriptor, ENOSYS (52) for the rest
;;
;; It has no memory of its own: it sees that of the module that it serves, and grows it never, since the allocators of some
;; runtimes believe that all growth is theirs. What a module does not import is left out when the component is made, so a
;; plugin that never writes a line does not import the log either.
(module
  (import "topoloom:discovery/log@0.1.0" "write" (func $log (param $level i32) (param $text i32) (param $length i32)))
  (import "env" "memory" (memory 0))

  ;; Nanoseconds. The runtime of Go ends itself where a clock shows 0.
  (global $now (mut i64) (i64.const 1000000000))
  ;; Any number will do, as long as it is the same one.
  (global $random (mut i64) (i64.const 8390046083397349997))

  ;; Whether there is a byte before the end, between the two that are given.
  (func $continues (param $at i32) (param $end i32) (param $low i32) (param $high i32) (result i32)
    (if (i32.ge_u (local.get $at) (local.get $end))
      (then (return (i32.const 0))))
    (i32.le_u
      (i32.sub (i32.load8_u (local.get $at)) (local.get $low))
      (i32.sub (local.get $high) (local.get $low))))

  ;; The bytes of the character of UTF-8 that begins here; 0 if none does, or its end is missing. The host takes nothing else as
  ;; text: one byte of a picture on standard output would end the call.
  (func $character (param $at i32) (param $end i32) (result i32)
    (local $first i32)
    (local $second i32)
    (local.set $first (i32.load8_u (local.get $at)))
    (local.set $second (i32.add (local.get $at) (i32.const 1)))
    (if (i32.lt_u (local.get $first) (i32.const 0x80))
      (then (return (i32.const 1))))
    ;; C2 to DF: the two before would be ASCII in two bytes.
    (if (i32.le_u (i32.sub (local.get $first) (i32.const 0xC2)) (i32.const 0x1D))
      (then
        (return
          (i32.mul
            (i32.const 2)
            (call $continues (local.get $second) (local.get $end) (i32.const 0x80) (i32.const 0xBF))))))
    ;; E0 to EF: no character that has a shorter form, and no half of a pair of UTF-16.
    (if (i32.eq (i32.and (local.get $first) (i32.const 0xF0)) (i32.const 0xE0))
      (then
        (return
          (i32.mul
            (i32.const 3)
            (i32.and
              (call $continues
                (local.get $second)
                (local.get $end)
                (select (i32.const 0xA0) (i32.const 0x80) (i32.eq (local.get $first) (i32.const 0xE0)))
                (select (i32.const 0x9F) (i32.const 0xBF) (i32.eq (local.get $first) (i32.const 0xED))))
              (call $continues
                (i32.add (local.get $at) (i32.const 2))
                (local.get $end)
                (i32.const 0x80)
                (i32.const 0xBF)))))))
    ;; F0 to F4: no character that has a shorter form, and none behind the last one.
    (if (i32.le_u (i32.sub (local.get $first) (i32.const 0xF0)) (i32.const 4))
      (then
        (return
          (i32.mul
            (i32.const 4)
            (i32.and
              (call $continues
                (local.get $second)
                (local.get $end)
                (select (i32.const 0x90) (i32.const 0x80) (i32.eq (local.get $first) (i32.const 0xF0)))
                (select (i32.const 0x8F) (i32.const 0xBF) (i32.eq (local.get $first) (i32.const 0xF4))))
              (i32.and
                (call $continues
                  (i32.add (local.get $at) (i32.const 2))
                  (local.get $end)
                  (i32.const 0x80)
                  (i32.const 0xBF))
                (call $continues
                  (i32.add (local.get $at) (i32.const 3))
                  (local.get $end)
                  (i32.const 0x80)
                  (i32.const 0xBF))))))))
    (i32.const 0))

  ;; Sends a piece of text to the log, if there is any.
  (func $piece (param $level i32) (param $from i32) (param $to i32)
    (if (i32.lt_u (local.get $from) (local.get $to))
      (then
        (call $log (local.get $level) (local.get $from) (i32.sub (local.get $to) (local.get $from))))))

  ;; Sends what was written to the log, one message for each line. What is no text is left out, and ends a message. So does the
  ;; end of what was written: to keep the begin of a line until the next write takes a memory, an adapter can have none, and the
  ;; allocator of the module must not be called in the middle of a panic.
  (func $lines (param $level i32) (param $at i32) (param $end i32)
    (local $from i32)
    (local $bytes i32)
    (local.set $from (local.get $at))
    (block $written
      (loop $next
        (br_if $written (i32.ge_u (local.get $at) (local.get $end)))
        (local.set $bytes (call $character (local.get $at) (local.get $end)))
        (if (i32.or (i32.eqz (local.get $bytes)) (i32.eq (i32.load8_u (local.get $at)) (i32.const 10)))
          (then
            (call $piece (local.get $level) (local.get $from) (local.get $at))
            (local.set $bytes (i32.const 1))
            (local.set $from (i32.add (local.get $at) (i32.const 1)))))
        (local.set $at (i32.add (local.get $at) (local.get $bytes)))
        (br $next)))
    (call $piece (local.get $level) (local.get $from) (local.get $end)))

  ;; Each piece of what is written has an address and a length, four bytes each.
  (func (export "fd_write") (param $fd i32) (param $pieces i32) (param $count i32) (param $written i32) (result i32)
    (local $sum i32)
    (local $at i32)
    (local $length i32)
    (if (i32.gt_u (i32.sub (local.get $fd) (i32.const 1)) (i32.const 1))
      (then (return (i32.const 8))))
    (block $done
      (loop $next
        (br_if $done (i32.eqz (local.get $count)))
        (local.set $at (i32.load (local.get $pieces)))
        (local.set $length (i32.load offset=4 (local.get $pieces)))
        (call $lines
          (select (i32.const 3) (i32.const 1) (i32.eq (local.get $fd) (i32.const 2)))
          (local.get $at)
          (i32.add (local.get $at) (local.get $length)))
        (local.set $sum (i32.add (local.get $sum) (local.get $length)))
        (local.set $pieces (i32.add (local.get $pieces) (i32.const 8)))
        (local.set $count (i32.sub (local.get $count) (i32.const 1)))
        (br $next)))
    (i32.store (local.get $written) (local.get $sum))
    (i32.const 0))

  (func (export "clock_res_get") (param $clock i32) (param $resolution i32) (result i32)
    (i64.store (local.get $resolution) (i64.const 1000))
    (i32.const 0))

  ;; All clocks are one.
  (func (export "clock_time_get") (param $clock i32) (param $precision i64) (param $time i32) (result i32)
    (global.set $now (i64.add (global.get $now) (i64.const 1000)))
    (i64.store (local.get $time) (global.get $now))
    (i32.const 0))

  ;; A subscription has 48 bytes: what the caller knows it by, its kind (0 is a clock), and for a clock a time at 24 and at 40
  ;; whether that is a date. Its event has 32: the same mark, an error at 8, the kind at 10, and what can be read or written.
  (func (export "poll_oneoff") (param $in i32) (param $out i32) (param $count i32) (param $events i32) (result i32)
    (local $began i64)
    (local $until i64)
    ;; EINVAL.
    (if (i32.eqz (local.get $count))
      (then (return (i32.const 28))))
    (i32.store (local.get $events) (local.get $count))
    (local.set $began (global.get $now))
    (block $done
      (loop $next
        (br_if $done (i32.eqz (local.get $count)))
        (i64.store (local.get $out) (i64.load (local.get $in)))
        (i64.store offset=8 (local.get $out) (i64.const 0))
        (i64.store offset=16 (local.get $out) (i64.const 0))
        (i64.store offset=24 (local.get $out) (i64.const 0))
        (i32.store8 offset=10 (local.get $out) (i32.load8_u offset=8 (local.get $in)))
        (if (i32.eqz (i32.load8_u offset=8 (local.get $in)))
          (then
            (local.set $until (i64.load offset=24 (local.get $in)))
            (if (i32.eqz (i32.and (i32.load16_u offset=40 (local.get $in)) (i32.const 1)))
              (then (local.set $until (i64.add (local.get $began) (local.get $until)))))
            ;; A wait without an end is a negative number here, and moves nothing.
            (if (i64.gt_s (local.get $until) (global.get $now))
              (then (global.set $now (local.get $until)))))
          (else (i32.store16 offset=8 (local.get $out) (i32.const 8))))
        (local.set $in (i32.add (local.get $in) (i32.const 48)))
        (local.set $out (i32.add (local.get $out) (i32.const 32)))
        (local.set $count (i32.sub (local.get $count) (i32.const 1)))
        (br $next)))
    (i32.const 0))

  ;; The linear generator of Knuth's MMIX, of which the upper byte is used.
  (func (export "random_get") (param $at i32) (param $length i32) (result i32)
    (block $done
      (loop $next
        (br_if $done (i32.eqz (local.get $length)))
        (global.set $random
          (i64.add (i64.mul (global.get $random) (i64.const 6364136223846793005)) (i64.const 1442695040888963407)))
        (i32.store8 (local.get $at) (i32.wrap_i64 (i64.shr_u (global.get $random) (i64.const 56))))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (local.set $length (i32.sub (local.get $length) (i32.const 1)))
        (br $next)))
    (i32.const 0))

  (func (export "args_get") (param i32 i32) (result i32) (i32.const 0))
  (func (export "args_sizes_get") (param $count i32) (param $bytes i32) (result i32)
    (i32.store (local.get $count) (i32.const 0))
    (i32.store (local.get $bytes) (i32.const 0))
    (i32.const 0))
  (func (export "environ_get") (param i32 i32) (result i32) (i32.const 0))
  (func (export "environ_sizes_get") (param $count i32) (param $bytes i32) (result i32)
    (i32.store (local.get $count) (i32.const 0))
    (i32.store (local.get $bytes) (i32.const 0))
    (i32.const 0))
  (func (export "sched_yield") (result i32) (i32.const 0))
  (func (export "proc_exit") (param i32) (unreachable))

  ;; EBADF: no descriptor is open.
  (func (export "fd_advise") (param i32 i64 i64 i32) (result i32) (i32.const 8))
  (func (export "fd_allocate") (param i32 i64 i64) (result i32) (i32.const 8))
  (func (export "fd_close") (param i32) (result i32) (i32.const 8))
  (func (export "fd_datasync") (param i32) (result i32) (i32.const 8))
  (func (export "fd_fdstat_get") (param i32 i32) (result i32) (i32.const 8))
  (func (export "fd_fdstat_set_flags") (param i32 i32) (result i32) (i32.const 8))
  (func (export "fd_fdstat_set_rights") (param i32 i64 i64) (result i32) (i32.const 8))
  (func (export "fd_filestat_get") (param i32 i32) (result i32) (i32.const 8))
  (func (export "fd_filestat_set_size") (param i32 i64) (result i32) (i32.const 8))
  (func (export "fd_filestat_set_times") (param i32 i64 i64 i32) (result i32) (i32.const 8))
  (func (export "fd_pread") (param i32 i32 i32 i64 i32) (result i32) (i32.const 8))
  (func (export "fd_prestat_dir_name") (param i32 i32 i32) (result i32) (i32.const 8))
  (func (export "fd_prestat_get") (param i32 i32) (result i32) (i32.const 8))
  (func (export "fd_pwrite") (param i32 i32 i32 i64 i32) (result i32) (i32.const 8))
  (func (export "fd_read") (param i32 i32 i32 i32) (result i32) (i32.const 8))
  (func (export "fd_readdir") (param i32 i32 i32 i64 i32) (result i32) (i32.const 8))
  (func (export "fd_renumber") (param i32 i32) (result i32) (i32.const 8))
  (func (export "fd_seek") (param i32 i64 i32 i32) (result i32) (i32.const 8))
  (func (export "fd_sync") (param i32) (result i32) (i32.const 8))
  (func (export "fd_tell") (param i32 i32) (result i32) (i32.const 8))

  ;; ENOSYS: there is no such thing.
  (func (export "path_create_directory") (param i32 i32 i32) (result i32) (i32.const 52))
  (func (export "path_filestat_get") (param i32 i32 i32 i32 i32) (result i32) (i32.const 52))
  (func (export "path_filestat_set_times") (param i32 i32 i32 i32 i64 i64 i32) (result i32) (i32.const 52))
  (func (export "path_link") (param i32 i32 i32 i32 i32 i32 i32) (result i32) (i32.const 52))
  (func (export "path_open") (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32) (i32.const 52))
  (func (export "path_readlink") (param i32 i32 i32 i32 i32 i32) (result i32) (i32.const 52))
  (func (export "path_remove_directory") (param i32 i32 i32) (result i32) (i32.const 52))
  (func (export "path_rename") (param i32 i32 i32 i32 i32 i32) (result i32) (i32.const 52))
  (func (export "path_symlink") (param i32 i32 i32 i32 i32) (result i32) (i32.const 52))
  (func (export "path_unlink_file") (param i32 i32 i32) (result i32) (i32.const 52))
  (func (export "proc_raise") (param i32) (result i32) (i32.const 52))
  (func (export "sock_accept") (param i32 i32 i32) (result i32) (i32.const 52))
  (func (export "sock_recv") (param i32 i32 i32 i32 i32 i32) (result i32) (i32.const 52))
  (func (export "sock_send") (param i32 i32 i32 i32 i32) (result i32) (i32.const 52))
  (func (export "sock_shutdown") (param i32 i32) (result i32) (i32.const 52)))
