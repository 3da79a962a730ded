/* Who else acts: see oncerun.pml. */

proctype Command(byte s)
{
  mtype code;
  {
#if HIDES == 1
    if
    :: tree_by_command = tree_by_command & ~bit_of(s)
    :: skip
    fi;
#endif
    if
    :: !calm -> code = failed
    :: true ->
#if MARKS
      atomic { !writing -> /* UPDATE … WHERE run_id AND fencing_token AND status = 'pending' */
        if
        :: row.status == pending && row.serial == s -> have_effect(s); row.status = done
        :: else
        fi };
#elif LATE
      in_flight = in_flight | bit_of(s);
      !(in_flight & bit_of(s));
#else
      atomic { have_effect(s) };
#endif
      if
      :: landed & bit_of(s) -> code = done
      :: !calm || !(landed & bit_of(s)) -> code = failed
      fi
    fi
  } unless { struck & bit_of(s) };
  atomic {
    live = live & ~bit_of(s); tree_by_command = tree_by_command & ~bit_of(s);
    lock_by_command = false;
    exited[s] = ((struck & bit_of(s)) -> unknown : code)
  }
}

/* Answers requests, or loses them. */
proctype Downstream()
{
  byte s;
end:
  do
  :: atomic { in_flight != 0 ->
       s = 1;
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

proctype Killer()
{
end:
  do
  :: atomic { crashes > 0 && running & ~killed & 1 -> crashes--; killed = killed | 1 }
  :: atomic { crashes > 0 && running & ~killed & 2 -> crashes--; killed = killed | 2 }
  :: atomic { crashes > 0 && running & ~killed & 4 -> crashes--; killed = killed | 4 }
  :: atomic { crashes > 0 && live & ~struck -> crashes--; struck = struck | live }
  :: atomic { crashes > 0 && live & ~struck && running & ~killed & 1 -> crashes--;
              struck = struck | live; killed = killed | 1 }
  :: atomic { crashes > 0 && live & ~struck && running & ~killed & 2 -> crashes--;
              struck = struck | live; killed = killed | 2 }
  :: atomic { crashes > 0 && live & ~struck && running & ~killed & 4 -> crashes--;
              struck = struck | live; killed = killed | 4 }
  od
}

#if OPERATOR
/* resolve --force --ready: SqliteLedger::settle, once. */
proctype Operator()
{
end:
  atomic { !writing && row.status == pending && spool[row.serial] == 0 && !success_known && !calm ->
           elsewhere = elsewhere | bit_of(row.serial);
           row.status = ready; row.late = false; row.end_recorded = true }
}
#endif
