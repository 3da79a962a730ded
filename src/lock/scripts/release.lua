-- Gives the lock back if it is ours, with the mark of what the run came to.
-- KEYS: lock, mark. ARGV: our value, the mark ('-' leaves it, '' removes it), its milliseconds, how
-- our own pending mark begins ('' where there is none), and that of our attempt before.
-- Lock and mark are compared each for itself: a lock that was lost is left alone, and a mark that
-- another host has written since is left as well, but for a success, which is true whoever else ran.
-- Returns whether the lock was ours (1).
local ours = redis.call('GET', KEYS[1]) == ARGV[1]
if ARGV[2] ~= '-' then
  local mark = redis.call('GET', KEYS[2]) or ''
  local pending = (ARGV[4] ~= '' and string.sub(mark, 1, #ARGV[4]) == ARGV[4]) or
                  (ARGV[5] ~= '' and string.sub(mark, 1, #ARGV[5]) == ARGV[5])
  local success = string.sub(ARGV[2], 1, 5) == 'done '
  if ARGV[2] == '' then
    if pending then
      redis.call('DEL', KEYS[2])
    end
  elseif success or pending or mark == '' or (ours and ARGV[4] == '') then
    redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
  end
end
if ours then
  redis.call('DEL', KEYS[1])
  return 1
end
return 0
