-- Agents enter the registry and count as heard just now; with ARGV[3] = 1 only those that are not held.
local admissions = cmsgpack.unpack(ARGV[1])
local now = ARGV[2]
for _, admission in ipairs(admissions) do
    local id, entry, interval, due = unpack(admission)
    local presence = 'agent:presence:' .. id
    redis.call('SET', 'agent:registry:' .. id, entry)
    if ARGV[3] == '0' or redis.call('EXISTS', presence) == 0 then
        if redis.call('HGET', presence, 'presence') ~= 'alive' then
            redis.call('HSET', presence, 'presence', 'alive', 'since_ms', now)
        end
        redis.call('HSET', presence, 'received_ms', now, 'counted_ms', now, 'interval_ms', interval)
        redis.call('ZADD', 'agent:due', due, id)
        redis.call('SADD', 'agent:active', id)
        redis.call('SREM', 'agent:stale', id)
        redis.call('SREM', 'agent:dead', id)
    end
end
return #admissions
