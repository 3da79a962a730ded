-- Says in the mark that an attempt is about to start, and extends the lock, if the lock is ours and
-- the mark is still the one by which the start was decided, or says so already.
-- KEYS: lock, mark, token. ARGV: our value, its milliseconds, the mark that was seen, the new one,
-- its milliseconds (0: no marks are kept), the token of the attempt: the ledger may be ahead.
-- Returns 1; 0 when the lock is not ours; -1 when the mark has changed.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
-- As acquire.lua returns it: whatever else may stand there must not hinder for ever.
local mark = string.sub(string.gsub(redis.call('GET', KEYS[2]) or '', '\n', ' '), 1, 2000)
if tonumber(ARGV[5]) > 0 and mark ~= ARGV[4] then
  if mark ~= ARGV[3] then
    return -1
  end
  redis.call('SET', KEYS[2], ARGV[4], 'PX', ARGV[5])
end
if (tonumber(redis.call('GET', KEYS[3]) or '0') or 0) < tonumber(ARGV[6]) then
  redis.call('SET', KEYS[3], ARGV[6])
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
