/*
 * The protocol of one run, (job, biz date), on hosts of which none sees another's ledger, under a
 * lock that is a lease on one server: a key that ends by itself, and beside it a mark of the date.
 *
 * A step here is a step there: between two of them every other process may do anything, the clock
 * may tick, and SIGKILL may come. A process that is stopped is one that takes no step for long, so
 * there is no SIGSTOP of its own. Time is a few ticks for each lease. All clocks tick at once; how
 * early each request is executed, and how late its reply arrives, is free. What has to be done by
 * a certain tick holds that tick back until it is done, if it is the guardian's business, and does
 * not if it is oncerun's, which may be dead or stopped.
 *
 *   -DCONTENDERS=2|3  invocations before the last, which nobody disturbs
 *   -DHOSTS=2|3       each invocation is on any of them
 *   -DTTL=N           ticks for which the lock is granted
 *   -DSTEPS=2|1       the mark becomes `pending` by a request of its own, after the claim, if it is
 *                     still what was decided on. 1: with the lock, and what stood there is kept
 *                     beside it. That breaks promises (test_model.py), which is why there are two
 *   -DCRASHES=N       so many kills, each of an oncerun, or of its host
 *   -DLOSSES=N        so many requests given up, which are executed later, or never; or have been.
 *                     A renewal may be lost at any time without being counted
 *   -DFLUSHES=N       so often the server loses its data
 *   -DCHECK=0|1|2     2: also before the first attempt (--check-first)
 *   -DGUARANTEE=G     cautious, at_least_once, at_most_once
 *   -DLATE=1          the effect is a request that outlives the command that sent it
 *   -DRELEASED_FIRST=1 the result goes to the mark before it is in the own ledger: no promise
 *                     needs that order, the ledger only knows less after a crash
 *
 * Left out: the lock over several dates, clocks of different rates, retries in one invocation.
 *
 * The names that #ifdef asks for are mutations: see oncerun.pml.
 */

#ifndef CONTENDERS
#define CONTENDERS 2
#endif
#ifndef HOSTS
#define HOSTS 2
#endif
#ifndef TTL
#define TTL 2
#endif
#ifndef STEPS
#define STEPS 2
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef LOSSES
#define LOSSES 1
#endif
#ifndef FLUSHES
#define FLUSHES 0
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

#ifndef RELEASED_FIRST
#define RELEASED_FIRST 0
#endif

#include "server.pml"

proctype Command(byte s)
{
  mtype code;
  {
    if
    :: !calm -> code = failed
    :: true ->
#if LATE
      in_flight = in_flight | bit_of(s);
      !(in_flight & bit_of(s));
#else
      atomic { have_effect(s) };
#endif
      code = ((landed & bit_of(s)) -> done : failed)
    fi
  } unless { !(live & ~struck & bit_of(s)) };
  atomic {
    live = live & ~bit_of(s);
#ifdef STRUCK_IS_NOT_ASKED
    exited[s] = (code == 0 -> done : code)
#else
    exited[s] = ((struck & bit_of(s)) -> unknown : code)
#endif
  }
}

/* Answers the command's requests, or loses them. */
proctype Downstream()
{
  byte s;
end:
  do
  :: atomic { in_flight != 0 ->
       do
       :: in_flight & bit_of(s) -> break
       :: else -> s++
       od;
       in_flight = in_flight & ~bit_of(s);
       if
       :: have_effect(s)
       :: !calm
       fi;
       s = 0 }
  od
}

/* ---- one invocation ---------------------------------------------------------------------------- */

#define held_for_certain (held[me] > KILL_AT && !(lost_it & bit_of(me)))
#define no_longer_held (!held_for_certain && !held_on(me))

/* Nobody waits for it any longer. It was executed, or will be, or never. */
inline give_up_request(late) {
  losses--;
  if
  :: late = late | bit_of(me); now[me] = 0
  :: keep = before[me]; keep_owner = before_owner[me];
     execute(me);
     before[me] = keep; before_owner[me] = keep_owner; keep = 0; keep_owner = 0; reply = 0
  fi
}

#ifdef DOUBT_ALWAYS_HOLDS
#define RETRIES false
#else
#define RETRIES (GUARANTEE == at_least_once)
#endif

/* What the mark and the own ledger say together: the worse of the two, unless either knows it to be
 * done. A `pending` of an attempt that this ledger has no row of is a doubt, whoever wrote it. */
inline judge() {
  d_step {
    if
    :: before[me] == done || ledger[h] == done -> status = done
    :: else ->
      if
      :: (before[me] == pending && before_owner[me] != ledger_value[h]
#ifdef NO_ROW_IS_NO_START
          && host[before_owner[me] - 1] != h
#endif
         ) ||
#ifndef OWN_LEDGER_UNREAD
         ledger[h] == unknown ||
#endif
         before[me] == unknown -> status = unknown
      :: else -> status = ((before[me] == failed || ledger[h] == failed) -> failed : none)
      fi
    fi
  }
}

proctype Invocation(byte me)
{
  byte h;
  mtype status, outcome, reply, keep;
  byte keep_owner;
  bool again, with_key;

  {
    atomic {
      begun == me && (busy != (1 << HOSTS) - 1) ->
        begun++;
        if
        :: !(busy & 1) -> h = 0
        :: !(busy & 2) && me > 0 -> h = 1
#if HOSTS > 2
        :: !(busy & 4) && me > 1 -> h = 2
#endif
        fi;
        host[me] = h; busy = busy | bit_of(h); running = running | bit_of(me);
        ledger[h] = (ledger[h] == pending -> unknown : ledger[h]) /* its owner is dead */
    };
    if
    :: ledger[h] != done
    :: ledger[h] == done ->
      outcome = done;
#ifndef NEVER_TOLD_AGAIN
      if
      :: untold[h] -> goto telling
      :: else -> goto over
      fi
#else
      goto over
#endif
    fi;

acquiring: /* To wait for the lock is to come to this point when it is free. */
    atomic { warming == 0 && (key == 0 || key == value_of(me)) ->
             now[me] = acquire; if_acked[me] = TTL };
    if
    :: atomic { execute(me);
                if
                :: reply == granted -> held[me] = if_acked[me]; if_acked[me] = 0; reply = 0
                :: else -> if_acked[me] = 0; reply = 0; goto acquiring
                fi }
    :: atomic { losses > 0 -> give_up_request(late_acquire); if_acked[me] = 0;
#ifdef ANOTHER_VALUE_ON_RETRY
                acquired_in_vain = acquired_in_vain | (late_acquire & bit_of(me));
#endif
#ifdef DELETE_AND_ASK_AGAIN
                late_delete = late_delete | bit_of(me);
#endif
                if
                :: goto acquiring
#if STEPS == 2 || defined(GIVEN_UP_AT_ONCE)
                :: late_delete = late_delete | bit_of(me); outcome = unavailable; goto over
#endif
                fi }
    fi;

deciding:
    judge();
    if
    :: atomic { status == done -> outcome = done; ledger[h] = done; result[me] = done;
                goto releasing }
    :: atomic { (status == none && CHECK != 2) ||
                (status == failed && !CHECK && GUARANTEE != at_most_once) ||
                (status == unknown && !CHECK && RETRIES) -> goto claim }
    :: atomic { (CHECK && status != none) || (CHECK == 2 && status == none) -> goto asking }
    :: atomic { !CHECK && ((status == failed && GUARANTEE == at_most_once) ||
                           (status == unknown && !RETRIES)) ->
                promise(hold_has_a_cause, started || crashed || lapsed || flushed > 0 || LOSSES > 1);
                outcome = hold; result[me] = given_back; goto releasing }
    fi;

asking:
    if
    :: atomic { effects != 0 -> again = false; outcome = done; ledger[h] = done;
                ledger_value[h] = value_of(me); untold[h] = true; result[me] = done;
                goto releasing }
    :: atomic { effects == 0 ->
         if
#ifndef ABSENT_ONCE
         :: (status != failed || CHECK == 2) && !again -> again = true
#endif
         :: else -> again = false; goto claim
         fi };
      in_flight == 0; /* --check-settle is longer than a request lives */
      goto asking
    fi;

claim:
    if
    :: atomic { held_for_certain -> ledger[h] = pending; ledger_value[h] = value_of(me) }
    :: atomic { no_longer_held -> lapsed = true; outcome = lost; result[me] = given_back; goto releasing }
    fi;

#if STEPS == 2 && !defined(NO_PENDING_MARK)
marking:
    now[me] = mark_it;
    if
    :: atomic { execute(me);
                if
                :: reply == granted -> reply = 0
                :: reply == changed -> reply = 0; ledger[h] = status; goto deciding
                :: reply == denied -> reply = 0; goto not_started
                fi }
    :: atomic { losses > 0 -> give_up_request(late_mark);
                if
                :: goto marking
                :: goto not_started
                fi }
    fi;
#endif

    if /* The guardian launches it, and looks at the lease in the last moment. */
    :: atomic {
#ifndef LEASE_UNREAD_AT_THE_START
         held_for_certain ->
#endif
         promise(no_start_under_another_lease, none_else_holds);
         promise(one_live_command, live == 0);
         started = true; live = live | bit_of(me); run Command(me); goto reap }
#ifndef LEASE_UNREAD_AT_THE_START
    :: atomic { no_longer_held -> lapsed = true; goto not_started }
#endif
    fi;

not_started:
    atomic { ledger[h] = status; outcome = lost; result[me] = given_back; goto releasing };

reap:
#ifdef NO_GUARDIAN
    if
    :: exited[me] != 0
    :: to_be_killed(me) -> struck = struck | bit_of(me); exited[me] != 0
    fi;
#endif
#ifdef DONE_BEFORE_THE_END
    result[me] = done; goto releasing;
#endif
    atomic { exited[me] != 0 -> result[me] = exited[me];
             promise(lost_is_not_done, result[me] != done || (landed & bit_of(me)));
             outcome = (result[me] == unknown -> lost : result[me]) };
#if !RELEASED_FIRST
    atomic { ledger[h] = result[me]; untold[h] = result[me] == done };
#endif

releasing:
    atomic { now[me] = release; held[me] = 0 };
    if
    :: atomic { execute(me); reply = 0; untold[h] = false }
    :: atomic { losses > 0 -> give_up_request(late_release);
                if
                :: goto releasing
                :: true
                fi }
    fi;
#if RELEASED_FIRST
    atomic { ledger[h] = (result[me] == given_back -> ledger[h] : result[me]) };
#endif
    goto over;

telling: /* A skip of a date that is done here, which the server may not know. */
    now[me] = tell;
    if
    :: atomic { execute(me); reply = 0; untold[h] = false }
    :: atomic { losses > 0 -> give_up_request(late_tell) }
    fi;
over:
    skip
  } unless { killed & bit_of(me) };

  /* What a death leaves behind. Requests are on their way, and the guardian has the lease. */
  atomic {
    late_acquire = (now[me] == acquire -> late_acquire | bit_of(me) : late_acquire);
    late_mark = (now[me] == mark_it -> late_mark | bit_of(me) : late_mark);
    late_release = (now[me] == release -> late_release | bit_of(me) : late_release);
    late_tell = (now[me] == tell -> late_tell | bit_of(me) : late_tell);
    now[me] = 0; reply = 0;
    if_acked[me] = (renewing[me] == 0 -> 0 : if_acked[me]);
    running = running & ~bit_of(me)
  };
  atomic { !(live & bit_of(me)) -> /* only then is the host free for another of this date */
    if
    :: calm -> last_outcome = outcome; last_host = h
    :: else
    fi;
    busy = busy & ~bit_of(h); gone++;
    exited[me] = 0; struck = struck & ~bit_of(me); lost_it = lost_it & ~bit_of(me);
    if /* only a request that is late still reads these */
    :: any_late & bit_of(me)
    :: else -> before[me] = none; before_owner[me] = 0; result[me] = 0
    fi }
}

init
{
  atomic {
    run Server();
#if LATE
    run Downstream();
#endif
    run Surroundings(0); run Invocation(0);
    run Surroundings(1); run Invocation(1);
#if CONTENDERS > 2
    run Surroundings(2); run Invocation(2);
#endif
    run Surroundings(CONTENDERS)
  };
  /* One more, when all are gone. Nobody kills it, nothing is lost, its command succeeds; requests
   * that were given up may still come. */
  atomic { gone == CONTENDERS -> calm = true; crashes = 0; losses = 0; flushes = 0;
           run Invocation(CONTENDERS) };
  gone > CONTENDERS;
  promise(later_start_settles_it, last_outcome == done || last_outcome == hold);
  promise(no_run_is_lost, !(CHECK || GUARANTEE == at_least_once) ||
    (last_outcome == done && effects > 0));
  promise(result_reaches_the_mark, last_outcome != done || flushed > 0 || mark == done)
}
