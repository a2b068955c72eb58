-- If nobody looked for longer than ARGV[2] ms, every date of silence moves by that time; answers who is held. The dead
-- are at most forgotten later for it: else a clock that runs a day ahead would take them all off the register.
local now = tonumber(ARGV[1])
local looked = tonumber(redis.call('GET', 'agent:looked') or now)
local gap = now - looked
redis.call('SET', 'agent:looked', ARGV[1])
redis.call('SET', 'agent:listening', '', 'PX', ARGV[2])
if math.abs(gap) > tonumber(ARGV[2]) then
    local dates = redis.call('ZRANGE', 'agent:due', 0, -1, 'WITHSCORES')
    for index = 1, #dates, 2 do
        local presence = 'agent:presence:' .. dates[index]
        if redis.call('HGET', presence, 'presence') ~= 'dead' then
            redis.call('ZADD', 'agent:due', tonumber(dates[index + 1]) + gap, dates[index])
            redis.call('HINCRBY', presence, 'counted_ms', gap)
        elseif gap > 0 then
            redis.call('ZADD', 'agent:due', tonumber(dates[index + 1]) + gap, dates[index])
        end
    end
end
return redis.call('SMEMBERS', 'agent:active')
