/* The server, the clocks and what strikes from outside: see lease.pml. */

#define INVOCATIONS (CONTENDERS + 1)
#define bit_of(n) (1 << (n))
#define value_of(i) (1 + i)     /* what the lock holds for an owner; 0: nothing */
#define invocation_of(value) (((value) & 7) - 1)
#define IN_VAIN 8             /* added: a value that its owner no longer goes by */

mtype = { none, pending, done, failed, unknown, given_back };    /* marks and results */
mtype = { acquire, mark_it, release, tell };                     /* requests */
mtype = { granted, denied, changed };                            /* and replies */
mtype = { cautious, at_least_once, at_most_once, hold, unavailable, lost };

/* spin prints the expression that failed, and with it the promise's name. */
hidden byte one_live_command, no_start_under_another_lease, at_most_one_effect, one_effect_a_host,
  exactly_one_effect, done_stays_done, done_means_effect, lost_is_not_done, hold_has_a_cause,
  later_start_settles_it, no_run_is_lost, result_reaches_the_mark, lease_of_the_dead_ends;
#define promise(name, expression) assert(name || (expression))

/* ---- on the server --------------------------------------------------------------------------- */

byte key, left;            /* whose value the lock holds, and for how many more ticks */
mtype mark = none;
byte mark_owner;           /* of pending */
#if STEPS == 1
mtype former = none;       /* what stood there before pending, kept with it */
byte former_owner;
#endif
byte warming;              /* ticks for which a server that lost its data grants nothing */

/* ---- on each host ---------------------------------------------------------------------------- */

mtype ledger[HOSTS] = none; /* its ledger: none, pending, done, failed, unknown */
byte ledger_value[HOSTS];   /* of the attempt in it */
bool untold[HOSTS];        /* a success that the server has not acknowledged */
byte busy;                 /* hosts on which an invocation runs: there its own ledger excludes */

/* ---- each invocation ------------------------------------------------------------------------- */

byte host[INVOCATIONS];
byte running, killed, live, struck, begun; /* a bit each; begun: a number */
byte held[INVOCATIONS];     /* ticks until held_until */
byte if_acked[INVOCATIONS]; /* what held becomes if the request on its way is acknowledged */
byte renewing[INVOCATIONS]; /* its helper's request: 1 done, 2 refused; not yet known */
byte lost_it;               /* told so by the server */
mtype now[INVOCATIONS];     /* the request that it waits for */
mtype before[INVOCATIONS] = none; /* the mark that the server said stood there */
byte before_owner[INVOCATIONS];
mtype result[INVOCATIONS], exited[INVOCATIONS];
/* Requests given up, that the server may execute at any time, or never; a bit each. */
byte late_acquire, late_mark, late_release, late_tell, late_delete, late_renewal;
byte acquired_in_vain;      /* of late_acquire: those whose owner took another value since */

/* ---- the world ------------------------------------------------------------------------------- */

bool started;
byte effects, in_flight, landed, had_effect;
byte crashes = CRASHES, losses = LOSSES, flushes = FLUSHES;
byte gone;
bool calm;
/* Ghosts, read by promises only. */
bool crashed, lapsed; /* lapsed: a living owner was too slow for its lease */
byte flushed;
mtype last_outcome;
byte last_host, unowned;    /* ticks for which a lock is held by a value whose owner is gone */

inline have_effect(s) {
  effects++; landed = landed | bit_of(s);
  promise(exactly_one_effect, !CHECK || (flushed > 0 && CHECK != 2) || effects == 1);
  /* Each loss of the server's data can cost one more; no host repeats what its own ledger knows. */
  promise(at_most_one_effect, GUARANTEE != at_most_once || effects <= 1 + flushed);
  promise(one_effect_a_host, GUARANTEE != at_most_once || !(had_effect & bit_of(host[s])));
  had_effect = had_effect | bit_of(host[s])
}

/* ---- scripts, each atomic -------------------------------------------------------------------- */

inline set_mark(kind, owner) {
  promise(done_stays_done, mark != done || kind == done);
  promise(done_means_effect, kind != done || effects != 0);
  mark = kind; mark_owner = owner;
#if STEPS == 1
  if
  :: mark != pending -> former = none; former_owner = 0
  :: else
  fi
#endif
}

/* What set_mark does with a mark that is pending, beside it. */
inline acquire_script(i, asked, answer) {
  if
  :: warming == 0 && (key == 0 || key == asked) ->
    if
    :: key == 0 -> unowned = 0
    :: else
    fi;
    key = asked; left = TTL;
    answer = granted;
#if STEPS == 1
    if
#ifndef FORMER_MARK_FORGOTTEN
    :: mark == pending && mark_owner == asked ->
      before[i] = former; before_owner[i] = former_owner
#endif
    :: else ->
      before[i] = mark; before_owner[i] = mark_owner;
#ifndef NO_PENDING_MARK
      if
      :: mark == done
      :: else -> former = mark; former_owner = mark_owner;
                 mark = pending; mark_owner = asked
      fi
#endif
    fi
#else
    before[i] = mark; before_owner[i] = mark_owner
#endif
  :: else -> answer = denied
  fi
}

#if STEPS == 2
inline mark_script(i, answer) {
  if
#ifndef MARK_WITHOUT_KEY
  :: key != value_of(i) -> answer = denied
  :: key == value_of(i) &&
#else
  ::
#endif
     ((mark == before[i] && mark != done && mark_owner == before_owner[i]) ||
      (mark == pending && mark_owner == value_of(i))) ->
    set_mark(pending, value_of(i)); left = (key == value_of(i) -> TTL : left); answer = granted
  :: else -> before[i] = mark; before_owner[i] = mark_owner; answer = changed
  fi
}
#endif

inline put_back(i) { /* nothing was started: as if it had never been here */
  if
  :: mark == pending && mark_owner == value_of(i) ->
#if STEPS == 1
    promise(done_stays_done, mark != done);
    mark = former; mark_owner = former_owner; former = none; former_owner = 0
#else
    set_mark(before[i], before_owner[i])
#endif
  :: else
  fi
}

#ifdef DONE_ONLY_OVER_ITS_OWN
#define OVER_ITS_OWN 1
#else
#define OVER_ITS_OWN 0
#endif

/* The key goes if it is the owner's. The mark is no matter of the key: as long as it is the owner's
 * `pending`, nobody has claimed the date since. */
inline release_script(i) {
  with_key = key == value_of(i);
#ifdef RELEASE_WITHOUT_COMPARE
  with_key = true;
#endif
  if
  :: result[i] == given_back -> put_back(i)
  :: result[i] != given_back &&
#ifndef RELEASE_WITHOUT_COMPARE
     ((mark == pending && mark_owner == value_of(i)) ||
      (result[i] == done && mark != done && (with_key || !OVER_ITS_OWN)))
#else
     true
#endif
     -> set_mark(result[i], 0)
  :: else
  fi;
  if
  :: with_key -> key = 0; left = 0
  :: else
  fi;
  with_key = false
}

inline delete_script(i) { /* one compare-and-delete, by an owner that gave up */
  if
  :: key == value_of(i) -> key = 0; left = 0; put_back(i)
  :: else
  fi
}

inline tell_script(i) { /* a success of this host, of an attempt before this one */
  if
#if OVER_ITS_OWN
  :: mark == pending && mark_owner == ledger_value[host[i]] -> set_mark(done, 0)
#else
  :: mark != done -> set_mark(done, 0)
#endif
  :: else
  fi
}

inline renew_script(i, answer) {
  if
#ifdef RENEW_WITHOUT_COMPARE
  :: key != 0 -> left = TTL; answer = 1
  :: else -> answer = 2
#else
  :: key == value_of(i) -> left = TTL; answer = 1
  :: else -> answer = 2
#endif
  fi
}

inline execute(i) {
  if
  :: now[i] == acquire -> acquire_script(i, value_of(i), reply)
#if STEPS == 2
  :: now[i] == mark_it -> mark_script(i, reply)
#endif
  :: now[i] == release -> release_script(i); reply = granted
  :: now[i] == tell -> tell_script(i); reply = granted
  fi;
  now[i] = 0
}

inline execute_late(i) { /* the reply reaches nobody */
  if
  :: late_acquire & bit_of(i) ->
    late_acquire = late_acquire & ~bit_of(i);
    keep = before[i]; keep_owner = before_owner[i];
    value = ((acquired_in_vain & bit_of(i)) -> value_of(i) + IN_VAIN : value_of(i));
    acquire_script(i, value, ignored); value = 0;
    before[i] = keep; before_owner[i] = keep_owner
#if STEPS == 2
  :: late_mark & bit_of(i) ->
    late_mark = late_mark & ~bit_of(i);
    keep = before[i]; keep_owner = before_owner[i];
    mark_script(i, ignored);
    before[i] = keep; before_owner[i] = keep_owner
#endif
  :: late_release & bit_of(i) -> late_release = late_release & ~bit_of(i); release_script(i)
  :: late_tell & bit_of(i) -> late_tell = late_tell & ~bit_of(i); tell_script(i)
  :: late_delete & bit_of(i) -> late_delete = late_delete & ~bit_of(i); delete_script(i)
  :: late_renewal & bit_of(i) -> late_renewal = late_renewal & ~bit_of(i); renew_script(i, ignored)
  fi;
  keep = 0; keep_owner = 0; ignored = 0
}

/* ---- time ------------------------------------------------------------------------------------ */

#ifdef KILL_AFTER_THE_END
#define KILL_AT 0
#else
#define KILL_AT 1
#endif

/* The last one hears from the server in time. */
#define held_on(i) (calm && (i) == CONTENDERS && held[i] > 0)
#define to_be_renewed(i) (calm && (i) == CONTENDERS && \
  (now[i] != 0 || held[i] == 1))

#define to_be_killed(i) ((live & bit_of(i)) && \
  ((held[i] <= KILL_AT && !held_on(i)) || ((killed | lost_it) & bit_of(i))))

/* The guardian acts in time; oncerun, which may be dead or stopped, need not. */
#ifdef NO_GUARDIAN
#define overdue(i) to_be_renewed(i)
#else
#define overdue(i) (((live & bit_of(i)) && held[i] <= KILL_AT) || to_be_renewed(i))
#endif

inline one_less(what) { what = (what > 0 -> what - 1 : 0) }

inline tick_of(i) { one_less(held[i]); one_less(if_acked[i]) }

inline server_tick() {
  lapsed = lapsed ||
    (left == 1 && key < IN_VAIN && (running & ~killed & bit_of(invocation_of(key))));
  one_less(left);
  key = (left == 0 -> 0 : key);
  one_less(warming);
}

#ifdef RENEWALS_OF_THE_DEAD
#define helper_lives(i) (held[i] > 0)
#elif defined(RENEW_WITHOUT_COMPARE) /* and whether or not the lease has ended */
#define helper_lives(i) ((running & ~killed & bit_of(i)) && (held[i] > 0 || \
  (ledger[host[i]] == pending && ledger_value[host[i]] == value_of(i))))
#else
#define helper_lives(i) (held[i] > 0 && (running & ~killed & bit_of(i)))
#endif

inline acknowledged(i) {
  if
#ifdef COUNTED_FROM_THE_REPLY
  :: renewing[i] == 1 -> held[i] = (calm -> if_acked[i] : TTL)
#else
  :: renewing[i] == 1 -> held[i] = (if_acked[i] > held[i] -> if_acked[i] : held[i])
#endif
  :: renewing[i] == 2 -> lost_it = lost_it | bit_of(i)
  fi;
  renewing[i] = 0; if_acked[i] = 0
}

#define any_late (late_acquire | late_mark | late_release | late_tell | late_delete | late_renewal)

#if CONTENDERS > 2
#define each_or(condition) (condition(0) || condition(1) || condition(2) || condition(3))
#define each_and(condition) (condition(0) && condition(1) && condition(2) && condition(3))
#define for_each(action) action(0); action(1); action(2); action(3)
#else
#define each_or(condition) (condition(0) || condition(1) || condition(2))
#define each_and(condition) (condition(0) && condition(1) && condition(2))
#define for_each(action) action(0); action(1); action(2)
#endif

#define is_free_of(i) (held[i] == 0 || me == (i))
#define none_else_holds each_and(is_free_of)
#define time_matters(i) (held[i] > 0 || if_acked[i] > 0)

/* What may happen to one invocation at any moment. */
proctype Surroundings(byte i)
{
  mtype keep, ignored;
  byte keep_owner, value;
  bool with_key;
end:
  do
  :: atomic { any_late & bit_of(i) -> execute_late(i) }
  /* The helper, which asks for nothing else. That a request takes its time on the way there only
   * leaves the lock to the owner for longer; on the way back, it may be all of the lease. */
  :: atomic { helper_lives(i) && renewing[i] == 0 && held[i] < TTL && !(lost_it & bit_of(i)) ->
              if_acked[i] = TTL; renew_script(i, renewing[i]) }
  :: atomic { renewing[i] != 0 && helper_lives(i) -> acknowledged(i) }
  :: atomic { renewing[i] != 0 && !helper_lives(i) -> renewing[i] = 0; if_acked[i] = 0 }
  :: atomic { losses > 0 && renewing[i] == 0 && helper_lives(i) -> losses--;
              late_renewal = late_renewal | bit_of(i) }
#ifndef NO_GUARDIAN
  :: atomic { to_be_killed(i) && !(struck & bit_of(i)) -> struck = struck | bit_of(i) }
#endif
  /* SIGKILL to oncerun; the power of its host. */
  :: atomic { crashes > 0 && running & ~killed & bit_of(i) -> crashes--; crashed = true;
              killed = killed | bit_of(i);
              if
              :: live = live & ~bit_of(i)
              :: true
              fi }
  od
}

proctype Server()
{
end:
  do
  :: d_step { (left > 0 || warming > 0 || each_or(time_matters)) && !each_or(overdue) ->
       server_tick();
       for_each(tick_of);
       if
       :: key == 0 || (running & bit_of(invocation_of(key))) -> unowned = 0
       :: else -> unowned++
       fi;
       promise(lease_of_the_dead_ends, unowned <= 2 * TTL) }
#ifdef SERVER_CLOCK_STEPS
  :: atomic { left > 0 -> server_tick() }
#endif
  :: atomic { flushes > 0 && !calm -> flushes--; flushed++;
              key = 0; left = 0; mark = none; mark_owner = 0;
#if STEPS == 1
              former = none; former_owner = 0;
#endif
#ifdef NO_UPTIME_RULE
              warming = 0 }
#elif defined(UPTIME_OF_A_SHORTER_LEASE)
              warming = TTL - 1 }
#else
              warming = TTL }
#endif
  od
}
