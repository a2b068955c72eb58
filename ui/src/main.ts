import { mount } from 'svelte'
import App from './App.svelte'
import './style.css'
import { applyTheme } from './lib/theme.svelte'

applyTheme()
const target = document.getElementById('app')
if (target) mount(App, { target })
