-- Extends the lock if it is still ours.
-- KEYS: lock. ARGV: our value, its milliseconds.
-- Returns 1; or 0 when it is somebody else's or nobody's.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
