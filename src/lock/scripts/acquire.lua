-- Takes the lock if it is free, or if it is ours already: a reply may have been lost.
-- KEYS: lock, mark, token. ARGV: our value, its milliseconds, our pending mark, the milliseconds of
-- marks (0: none are kept).
-- Returns 0, value, milliseconds left when somebody else holds it; else 1, the mark that stood there
-- before us ('' for none), the token.
local held = redis.call('GET', KEYS[1])
if held and held ~= ARGV[1] then
  return {0, held, redis.call('PTTL', KEYS[1])}
end
if held then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
else
  redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])
end
local former = ''
if tonumber(ARGV[4]) > 0 then
  local mark = redis.call('GET', KEYS[2]) or ''
  if string.sub(mark, 1, #ARGV[3] + 1) == ARGV[3] .. '|' then
    former = string.sub(mark, #ARGV[3] + 2)
  else
    former = string.match(mark, '^[^|]*')
    if string.sub(former, 1, 5) ~= 'done ' then
      redis.call('SET', KEYS[2], ARGV[3] .. '|' .. former, 'PX', ARGV[4])
    end
  end
end
local time = redis.call('TIME')
local token = string.format('%.0f', math.max(tonumber(redis.call('GET', KEYS[3]) or '0') + 1,
                                             time[1] * 1000 + math.floor(time[2] / 1000)))
redis.call('SET', KEYS[3], token)
return {1, former, token}
