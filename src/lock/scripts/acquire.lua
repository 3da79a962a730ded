-- Takes the lock if it is free, or if it is ours already: an answer may have been lost. Changes
-- nothing else, so that a request that is executed late, on a server that had hung, only blocks for
-- as long as the lock lives.
-- KEYS: lock, mark, token. ARGV: our value, its milliseconds.
-- Returns 0, value when somebody else holds it; else 1, the run's mark ('' for none), the token.
-- Before anything is changed: what stands there may be no text.
local mark = string.sub(string.gsub(redis.call('GET', KEYS[2]) or '', '\n', ' '), 1, 2000)
local last = tonumber(redis.call('GET', KEYS[3]) or '0') or 0
local held = redis.call('GET', KEYS[1])
if held and held ~= ARGV[1] then
  return {0, held}
end
if held then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
else
  redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])
end
local time = redis.call('TIME')
local token = string.format('%.0f', math.max(last + 1,
                                             time[1] * 1000 + math.floor(time[2] / 1000)))
redis.call('SET', KEYS[3], token)
return {1, mark, token}
