-- Heartbeats replace the status of agents that are in the registry; answers one letter each: + taken, - not held.
-- One that was on its way for more than a second, so that a later one is here, is kept for the history alone: clocks
-- of servers differ by less. A date that is ahead of the sweep's by ARGV[3] ms is of a wrong clock, and gives way.
local beats = cmsgpack.unpack(ARGV[1])
local history_max = tonumber(ARGV[2])
local now = tonumber(redis.call('GET', 'agent:looked') or 0) + tonumber(ARGV[3])
local answers = {}
for index, beat in ipairs(beats) do
    local id, received, interval, due, expires_in, status, sample = unpack(beat)
    if redis.call('EXISTS', 'agent:registry:' .. id) == 0 then
        answers[index] = '-'
    else
        local presence = 'agent:presence:' .. id
        local history = 'agent:history:' .. id
        local held = redis.call('HMGET', presence, 'presence', 'received_ms')
        local last = tonumber(held[2] or 0)
        if last <= received + 1000 or last > now then
            if held[1] ~= 'alive' then
                redis.call('HSET', presence, 'presence', 'alive', 'since_ms', received)
                redis.call('SADD', 'agent:active', id)
                redis.call('SREM', 'agent:stale', id)
                redis.call('SREM', 'agent:dead', id)
            end
            redis.call('HSET', presence, 'received_ms', received, 'counted_ms', received, 'interval_ms', interval,
                       'last', status)
            redis.call('SET', 'agent:status:' .. id, status, 'PX', expires_in)
            redis.call('ZADD', 'agent:due', due, id)
        end
        if redis.call('ZADD', history, received, sample) == 1 then
            redis.call('ZREMRANGEBYRANK', history, 0, -1 - history_max)
        end
        answers[index] = '+'
    end
end
return table.concat(answers)
