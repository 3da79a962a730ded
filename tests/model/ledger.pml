/* What is kept where, and the transactions on it: see oncerun.pml. */

/* An invocation claims at most once here, so that a serial, from 1, stands for a run id, too. */
#define SERIALS (CONTENDERS + 2)
#define bit_of(n) (1 << (n))

/* core::RowState and a result's status; OwnerLife; Action; Outcome; Guarantee */
mtype = { none, pending, done, failed, never_started, unknown, ready, late_success };
mtype = { settled, alive, orphaned, dead };
mtype = { leave, busy, hold, start, ask };
mtype = { blocked, unwritable, unrecorded, lost };
mtype = { cautious, at_least_once, at_most_once, mixed };

/* spin prints the expression that failed, and with it the promise's name. */
hidden byte one_live_command, claim_before_start, at_most_one_effect, exactly_one_effect,
  no_success_is_run_over, live_claim_is_left_alone, done_stays_done, done_means_effect,
  tokens_grow, later_start_settles_it, no_run_is_lost;
#define promise(name, expression) assert(name || (expression))

/* ---- durable -------------------------------------------------------------------------------- */

/* A row of job_run with its newest attempt's record. */
typedef Row {
  mtype status;
  byte serial; /* of the newest attempt; 0: there is no row */
  byte token;
  bool end_recorded;
  bool late;     /* late_success */
  byte complete  /* a bit each: attempts whose record is written by the owner or from the spool */
};
Row row;                 /* committed */
Row work;                /* inside the one transaction that is open */
mtype previous[SERIALS]; /* job_attempt.previous: what stood there before the attempt */
mtype spool[SERIALS];    /* an attempt's slot: its result, or 0 */

/* ---- kept by the kernel for those who live; a bit for each serial ---------------------------- */

bool writing;                        /* guard and BEGIN IMMEDIATE */
bool lock_by_owner, lock_by_command; /* one flock, the command inherits its descriptor */
byte owner_bytes;
byte tree_by_owner, tree_by_command; /* one byte, the command inherits its descriptor */
byte elsewhere;                      /* attempts whose bytes are those of another host's file */
byte live;                           /* commands that run, as /proc shows them */
byte struck;                         /* commands that get SIGKILL */
byte running, killed;                /* invocations by number, from 0 */
mtype exited[SERIALS];               /* done: exit 0; failed: another code; unknown: by signal */

/* ---- the world ------------------------------------------------------------------------------- */

byte begun; /* contenders are alike: numbering them by their first step leaves out no case */
byte effects;
byte in_flight, landed; /* requests on their way; those that had their effect */
byte crashes = CRASHES;
byte faults = FAULTS;
bool calm;              /* the last invocation, which nobody disturbs */
mtype last_outcome;

/* Ghosts, read by promises only. */
byte claimed;       /* attempts whose claim is durable */
bool success_known; /* an owner that was not killed since saw exit 0, or a success is recorded; with
                     * an operator, whose force comes too early: only what the ledger has taken in */

inline copy(to, from) {
  to.status = from.status; to.serial = from.serial; to.token = from.token;
  to.end_recorded = from.end_recorded; to.late = from.late; to.complete = from.complete
}

inline have_effect(s) {
  effects++; landed = landed | bit_of(s);
  promise(exactly_one_effect, OPERATOR || !(CHECK || MARKS) || effects == 1);
  promise(at_most_one_effect, OPERATOR || GUARANTEE != at_most_once || effects == 1)
}

/* ---- the ledger ------------------------------------------------------------------------------ */

inline begin_writing() { /* ledger::Writing; SqliteClaim::record */
  atomic {
#ifndef NO_EXCLUSION
    !writing ->
#endif
    writing = true; inside = true; copy(work, row)
  }
}

inline commit() { /* Transaction::commit */
  promise(done_stays_done, row.status != done || work.status == done);
  promise(done_means_effect, work.status != done || effects != 0);
  copy(row, work)
}

inline end_writing() { /* what is not committed is rolled back */
  atomic { writing = false; inside = false }
}

inline clear_and_end_writing() { /* only what was posted is cleared, after the commit */
  if
  :: d_step { posted ->
       i = 1;
       do
       :: i < SERIALS ->
         if
         :: work.complete & bit_of(i) ->
           success_known = success_known || spool[i] == done; spool[i] = 0
         :: else
         fi;
         i++
       :: else -> break
       od;
       i = 0; posted = false };
    end_writing()
  :: atomic { !posted -> writing = false; inside = false }
  fi
}

/* results.cpp, record_end: conditional on run id, token and `pending`. */
inline record_end(s, result) {
  if
#ifdef ANY_PENDING_ROW
  :: work.status == pending ->
#else
  :: work.status == pending && work.serial == s ->
#endif
    if
    :: result == never_started -> /* core::given_back */
#ifdef NOTHING_GIVEN_BACK
      work.status = never_started
#else
      work.late = work.late || previous[s] == late_success;
      work.status = ((work.late || previous[s] == unknown) -> unknown
                                        : (previous[s] == failed -> failed : never_started))
#endif
    :: else ->
      work.late = work.late && result != done;
      work.status = (work.late -> unknown : result)
    fi;
    work.end_recorded = true; work.complete = work.complete | bit_of(s); recorded = done
  :: else ->
    if
    :: work.serial == s && (work.complete & bit_of(s)) -> recorded = done /* a try before did it */
    :: work.serial == s && work.status == done && !work.end_recorded -> /* marked_by_command */
      work.end_recorded = true; work.complete = work.complete | bit_of(s); recorded = done
    :: else -> recorded = lost
    fi
  fi;
  promise(live_claim_is_left_alone, row.serial == s || row.status != pending ||
    !(owner_bytes & bit_of(row.serial)) || work.status == pending)
}

/* results.cpp, post and note_late_success. */
inline post(s, result) {
  if
  :: work.complete & bit_of(s)
  :: else ->
    record_end(s, result);
    if
    :: recorded == lost ->
      work.complete = work.complete | bit_of(s);
      if
#ifndef LATE_SUCCESS_FORGOTTEN
#ifdef LATE_TOUCHES_DONE
      :: result == done ->
#else
      :: result == done && work.status != done ->
#endif
        work.late = true;
        if
        :: work.status == pending && ((owner_bytes | live) & ~elsewhere & bit_of(work.serial))
        :: else -> work.status = unknown
        fi
#endif
      :: else
      fi
    :: else
    fi
  fi
}

/* results.cpp, post_spooled: one look at the slots. What it changes is committed later. */
inline post_spooled() {
  d_step {
    i = 1;
    do
    :: i < SERIALS ->
      if
      :: spool[i] != 0 -> post(i, spool[i]); posted = true
      :: else
      fi;
      i++
    :: else -> break
    od;
    i = 0; recorded = 0
  }
}

/* rows.cpp, life_of; os::LifeFile::judge: the owner's byte, then the tree's, then /proc; a step
 * each. */
inline judge(r) {
  if
  :: atomic { r.serial == 0 || (r.end_recorded && r.status == done) -> life = settled }
  :: atomic { r.serial != 0 && !(r.end_recorded && r.status == done) &&
              (owner_bytes & ~elsewhere & bit_of(r.serial)) -> life = alive }
  :: atomic { r.serial != 0 && r.end_recorded && r.status != done &&
              !(owner_bytes & ~elsewhere & bit_of(r.serial)) ->
              life = (r.status == pending -> dead : settled) }
  :: else ->
    if
#ifndef NO_TREE_BYTE
    :: atomic { (tree_by_owner | tree_by_command) & ~elsewhere & bit_of(r.serial) ->
                life = orphaned }
#endif
    :: else ->
      if
#if !defined(NO_LOOK_AT_PROC) && HIDES != 2
      :: atomic { live & ~elsewhere & bit_of(r.serial) -> life = orphaned }
#endif
      :: atomic { else -> life = dead }
      fi
    fi
  fi
}

#ifndef DOUBT_STARTS
#define DOUBT_STARTS 0
#endif
/* decide.cpp; in its order. */
#define decided(r) \
  ((life == alive || life == orphaned)                                       -> busy : \
  (r.status == done                                                          -> leave : \
  ((r.status == none || r.status == never_started || r.status == ready)      -> start : \
  (CHECK                                                                     -> ask : \
  (r.late                                                                    -> hold : \
  (r.status == failed         -> (guarantee == at_most_once -> hold : start) : \
                                 (guarantee == at_least_once || DOUBT_STARTS -> start : hold)))))))
/* rows.cpp, sighting_of */
#define status_of(r) ((r.status == pending && r.late) -> unknown : r.status)
