-- Extends the lock if it is still ours, and says in the mark which attempt is under way.
-- KEYS: lock, mark, token. ARGV: our value, its milliseconds, the mark ('' leaves it), its
-- milliseconds, the token of the attempt (0 for none): the ledger may be ahead of the last one.
-- Returns 1; or 0 and the value of who holds it, '' for nobody.
local held = redis.call('GET', KEYS[1]) or ''
if held ~= ARGV[1] then
  return {0, held}
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
if ARGV[3] ~= '' then
  redis.call('SET', KEYS[2], ARGV[3], 'PX', ARGV[4])
end
if tonumber(redis.call('GET', KEYS[3]) or '0') < tonumber(ARGV[5]) then
  redis.call('SET', KEYS[3], ARGV[5])
end
return {1, ''}
