/*
 * The protocol of one run, (job, biz date), on one host, for spin: invocations at once, killed at
 * any step with or without the command that they started, and in the end one more that nobody
 * disturbs.
 *
 * A step here is a step there: between two of them every other process may do anything, and SIGKILL
 * may come. What stands in one atomic block is one system call, or happens inside a transaction
 * where nobody else sees it. Comments name the function of src/ that a block stands for.
 *
 *   -DCONTENDERS=2|3  invocations at once
 *   -DCRASHES=N       so many SIGKILLs, each to an oncerun, to its command, or to both
 *   -DFAULTS=N        so often a start, the ledger's commit of a result, or the spool fails
 *   -DLOCK=0|1        --lock none; the flock of the job
 *   -DCHECK=0|1       1: an honest --check, "present" if and only if the effect has happened
 *   -DGUARANTEE=G     cautious, at_least_once, at_most_once; mixed: any one for each contender
 *   -DLATE=1          the effect is a request that outlives the command that sent it
 *   -DHIDES=1|2       the command may close the descriptor that holds its tree's byte; it is not
 *                     seen in /proc (a container)
 *   -DMARKS=1         the command marks its run done in the transaction of its effect
 *   -DOPERATOR=1      an operator makes a pending run ready by force though its owner, whose life
 *                     cannot be seen from here, lives. That breaks most promises by decision; two
 *                     remain: a late result touches no live claim, a late success is not run over
 *   -DCLOCK=N         at a claim the wall clock reads anything from 0 to N
 *
 * Left out: other dates of the job, --rerun, retries within one invocation, the state file.
 *
 * The names that #ifdef asks for are mutations: each breaks one rule. spin has to find a broken
 * promise for every one of them (test_model.py), or its silence about the rest proved nothing.
 */

#ifndef CONTENDERS
#define CONTENDERS 2
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef FAULTS
#define FAULTS 0
#endif
#ifndef LOCK
#define LOCK 1
#endif
#ifndef CHECK
#define CHECK 0
#endif
#ifndef GUARANTEE
#define GUARANTEE cautious
#endif
#ifndef LATE
#define LATE 0
#endif
#ifndef HIDES
#define HIDES 0
#endif
#ifndef MARKS
#define MARKS 0
#endif
#ifndef OPERATOR
#define OPERATOR 0
#endif
#ifndef CLOCK
#define CLOCK 0
#endif

#include "ledger.pml"

/* ---- one invocation ---------------------------------------------------------------------------- */

inline release_lock() { /* HeldFlock::release: an explicit unlock frees every copy */
  atomic { lock_by_owner = lock_by_owner && !locked; lock_by_command = lock_by_command && !locked;
           locked = false }
}

inline free_owner_byte() { /* ~SqliteClaim: closed */
  atomic { owner_bytes = owner_bytes & ~bit_of(mine); mine = 0 }
}

inline take_bytes() { /* HeldLife::take */
  atomic {
    i = work.serial + 1;
    if
    :: (owner_bytes | tree_by_owner | tree_by_command) & bit_of(i) -> outcome = unwritable
    :: else -> mine = i; owner_bytes = owner_bytes | bit_of(i);
               tree_by_owner = tree_by_owner | bit_of(i)
    fi;
    i = 0
  }
}

inline write_claim() { /* Claiming::write_run, write_attempt, commit */
  atomic {
    select(i : 0 .. CLOCK);
#ifndef TOKEN_IS_THE_CLOCK
    i = (i > work.token + 1 -> i : work.token + 1);
#endif
    promise(tokens_grow, i > row.token);
    promise(no_success_is_run_over, !success_known);
    promise(at_most_one_effect, guarantee != at_most_once || CHECK || OPERATOR ||
      (effects == 0 && in_flight == 0));
    work.token = i; i = 0; work.serial++;
    previous[work.serial] = (work.late -> late_success
                                       : (work.status == pending -> unknown : work.status));
    work.status = pending; work.end_recorded = false; work.late = false;
#ifdef BYTES_AFTER_COMMIT
    about = work.serial;
#endif
    commit(); claimed = claimed | bit_of(work.serial)
  }
}

inline launch() { /* child::launch: the command is there, and has what it inherits */
  atomic {
#ifndef CLAIM_UNWATCHED /* what does it lead to where nobody asks for the order itself? */
    promise(claim_before_start, claimed & bit_of(mine));
#endif
    promise(one_live_command, OPERATOR || live == 0);
    live = live | bit_of(mine); tree_by_command = tree_by_command | bit_of(mine);
    lock_by_command = locked;
    run Command(mine)
  }
}

inline record() { /* Attempt::record: SqliteClaim::finish, and the spool where that fails */
  begin_writing();
  atomic { record_end(mine, result) };
  if
  :: atomic { recorded == lost -> end_writing() }; /* SqliteClaim::try_finish, record_late */
    begin_writing();
    atomic { post(mine, result); commit(); success_known = success_known || result == done };
    end_writing()
  :: atomic { recorded == done -> commit();
              success_known = success_known || result == done };
    end_writing()
  :: atomic { recorded == done && faults > 0 -> faults--;
              if
              :: commit() /* reported as failed, and durable nevertheless */
              :: true
              fi };
    end_writing();
    if
    :: atomic { spool[mine] = result;
                success_known = success_known || (result == done && !OPERATOR) }
    :: atomic { faults > 0 -> faults--; saw_success = false; success_known = false }
    fi;
    outcome = unrecorded
  fi;
  atomic { recorded = 0; saw_success = false }
}

proctype Invocation(byte me; mtype guarantee)
{
  Row seen;
  mtype life, action, recorded, result, about_status, outcome;
  byte i, mine, about; /* the claimed serial; the one that the check is asked about */
  bool posted, locked, inside, again, saw_success;

  {
    /* Pipeline::peek: a look that takes nothing. After "dead" it reads the row again; here that is
     * of no interest, since only what is final or lives has a consequence. */
    atomic { begun == me -> begun++; running = running | bit_of(me); copy(seen, row) };
    if
    :: seen.status == none -> /* Pipeline::run_at_once: a date never seen is claimed without it */
      atomic { seen.status = 0; seen.end_recorded = false; goto acquire }
    :: true -> skip
    fi;
    judge(seen);
    atomic {
      action = decided(seen);
      seen.status = 0; seen.serial = 0; seen.token = 0; seen.end_recorded = false;
      seen.late = false; seen.complete = 0; life = 0;
      if
      :: action == leave || action == busy -> outcome = (action == leave -> done : busy); goto over
      :: else -> action = 0
      fi
    };

acquire: /* Pipeline::acquire_and_run. To wait for the lock is to come to this point later. */
#if LOCK
    atomic {
      if
      :: !lock_by_owner && !lock_by_command -> lock_by_owner = true; locked = true
      :: else -> outcome = blocked; goto over /* locked_out says whether it is busy or blocked */
      fi
    };
#endif

claim: /* Claiming::run */
#ifdef DECIDE_OUTSIDE
    atomic { copy(seen, row) };
    judge(seen);
    begin_writing();
#else
    begin_writing();
    again = false;
    do
    ::
#ifndef SPOOL_NOT_POSTED
      post_spooled();
#endif
      judge(work);
      /* Whoever is dead now may have spooled its result since: the slots are read once more. */
      if
#ifndef SPOOL_READ_ONCE
      :: life == dead && !again -> again = true
#endif
      :: else -> again = false; break
      fi
    od;
#endif
    atomic {
#ifdef DECIDE_OUTSIDE
      action = decided(seen);
#else
      action = decided(work);
#endif
      life = 0;
      if
#ifdef ANSWER_FOR_ANY_ATTEMPT
      :: action == ask && about != 0 -> action = start
#else
      :: action == ask && about == work.serial && about_status == status_of(work) -> action = start
#endif
      :: else
      fi;
      about = (action == ask -> work.serial : 0);
      about_status = (action == ask -> status_of(work) : 0)
    };
    if
    :: action == start
    :: else -> /* Pipeline::not_claimed */
      if
      :: posted -> atomic { commit() }
      :: else
      fi;
      clear_and_end_writing();
      if
      :: action == ask -> action = 0; goto asking
      :: else -> outcome = (action == leave -> done : action); action = 0; goto done_with_it
      fi
    fi;
    action = 0;

#ifndef BYTES_AFTER_COMMIT
    take_bytes(); /* Claiming::start */
    if
    :: outcome == unwritable -> posted = false; end_writing(); goto done_with_it
    :: else
    fi;
#endif
#ifdef CLAIM_AFTER_START
    end_writing(); launch(); begin_writing();
#endif
    write_claim();
    clear_and_end_writing();
#ifdef BYTES_AFTER_COMMIT
    atomic { mine = about; about = 0; owner_bytes = owner_bytes | bit_of(mine);
             tree_by_owner = tree_by_owner | bit_of(mine) };
#endif

    if /* Attempt::run */
#ifndef CLAIM_AFTER_START
    :: launch(); goto reap
    :: atomic { faults > 0 -> faults--; result = never_started } /* Attempt::give_back */
#else
    :: goto reap
#endif
    fi;
    goto recording;

reap:
#ifdef DONE_BEFORE_THE_END
    result = done; goto recording;
#endif
    atomic { exited[mine] != 0 -> result = exited[mine]; saw_success = result == done;
#if !OPERATOR
             success_known = success_known || saw_success
#endif
    };
recording:
    atomic { tree_by_owner = tree_by_owner & ~bit_of(mine); /* Claim::release_tree */
             tree_by_command = tree_by_command & ~bit_of(mine) };
#ifdef RELEASE_BEFORE_COMMIT
    owner_bytes = owner_bytes & ~bit_of(mine); release_lock();
#endif
    record();
    outcome = (outcome == unrecorded -> unrecorded : result);
    free_owner_byte();
    goto done_with_it;

asking: /* Pipeline::ask, ask_about */
    if
    :: effects != 0 -> goto present
    :: effects == 0 ->
      if
#ifndef ABSENT_ONCE
      :: about_status != failed && !again -> again = true;
        !(in_flight & bit_of(about)); /* --check-settle is longer than a request lives */
        goto asking
#endif
      :: else -> again = false; goto claim
      fi
    fi;

present: /* SqliteLedger::settle. A result that it misses does no harm: the run is done. */
    again = false;
    begin_writing();
    post_spooled();
    judge(work);
    if
    :: life == alive || life == orphaned || about != work.serial ||
       about_status != status_of(work) ->
      atomic { life = 0; about = 0; about_status = 0 };
      if
      :: posted -> atomic { commit() }
      :: else
      fi;
      clear_and_end_writing(); release_lock(); goto acquire
    :: else ->
      atomic { life = 0; about = 0; about_status = 0;
               work.status = done; work.late = false; work.end_recorded = true; commit() };
      clear_and_end_writing(); outcome = done
    fi;

done_with_it:
    release_lock();
over:
    skip
  } unless { killed & bit_of(me) };

  /* What a death leaves to the kernel: descriptors are closed, in an order that nobody promises. */
  atomic {
    about = mine;
    if
    :: saw_success -> success_known = false /* nobody is left who knows */
    :: else
    fi
  };
  do
  :: atomic { locked -> lock_by_owner = false; locked = false }
  :: atomic { inside -> writing = false; inside = false } /* SQLite rolls back */
#ifdef LIFE_IN_A_FILE
  :: atomic { mine != 0 -> mine = 0; about = 0 } /* as a pid file, which a death leaves behind */
#endif
  :: atomic { mine != 0 -> owner_bytes = owner_bytes & ~bit_of(mine); mine = 0 }
  :: atomic { about != 0 -> tree_by_owner = tree_by_owner & ~bit_of(about); about = 0 }
  :: else -> break
  od;
  atomic {
    if
    :: calm -> last_outcome = outcome
    :: else
    fi;
    running = running & ~bit_of(me)
  }
}

#include "world.pml"

inline contend(n) {
  if
  :: GUARANTEE != mixed -> run Invocation(n, GUARANTEE)
  :: GUARANTEE == mixed -> run Invocation(n, cautious)
  :: GUARANTEE == mixed -> run Invocation(n, at_least_once)
  :: GUARANTEE == mixed -> run Invocation(n, at_most_once)
  fi
}

init
{
  bool retries = false;
  atomic {
    row.status = none; row.end_recorded = true;
    contend(0);
    contend(1);
#if CONTENDERS > 2
    contend(2);
#endif
    run Killer();
    run Downstream();
#if OPERATOR
    run Operator();
#endif
  };
  /* One more, when all are gone. Nobody kills it, nothing fails, its command succeeds. */
  atomic { begun == CONTENDERS && running == 0 && live == 0 ->
           calm = true; crashes = 0; faults = 0;
           if
           :: GUARANTEE == mixed -> run Invocation(CONTENDERS, at_most_once)
           :: GUARANTEE == mixed -> run Invocation(CONTENDERS, at_least_once); retries = true
           :: else -> run Invocation(CONTENDERS, GUARANTEE);
                      retries = GUARANTEE == at_least_once
           fi };
  begun > CONTENDERS && running == 0;
  promise(later_start_settles_it, last_outcome == done || last_outcome == hold);
  promise(no_run_is_lost, !(CHECK || retries) || OPERATOR ||
    (row.status == done && effects > 0 && last_outcome == done))
}
