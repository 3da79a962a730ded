-- Gives the lock back if it is ours, with the mark of what the run came to.
-- KEYS: lock, mark. ARGV: our value, the mark ('-' leaves it, '<' puts back what stood there before
-- ours), its milliseconds, how a pending mark of our own begins.
-- A lock that was lost meanwhile is left alone, and then a mark is only put where there is none or
-- one that says that it is ours.
-- Returns whether the lock was ours (1).
local ours = redis.call('GET', KEYS[1]) == ARGV[1]
if ARGV[2] ~= '-' then
  local mark = redis.call('GET', KEYS[2]) or ''
  local pending = string.sub(mark, 1, #ARGV[4]) == ARGV[4]
  local former = string.match(mark, '|(.*)$') or ''
  if ARGV[2] ~= '<' then
    if ours or pending or mark == '' then
      redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
    end
  elseif pending and former == '' then
    redis.call('DEL', KEYS[2])
  elseif pending then
    redis.call('SET', KEYS[2], former, 'PX', ARGV[3])
  end
end
if ours then
  redis.call('DEL', KEYS[1])
  return 1
end
return 0
